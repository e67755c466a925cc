import ActivityStore
import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Kafka
import LiveActivity
import Redis

/// `causeway inspect`: shows the data of Redis about an activity, a device, an audience or an app, and an activity's
/// results from Kafka. Changes nothing.
struct InspectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "Show what Causeway knows about an activity, a device, an audience or a whole app. Read-only.",
        discussion: """
            For an activity: its token, what it shows, what waits, its pace, budget and lifetime, and its last \
            results. For a device: its push-to-start tokens and its remaining starts. For an audience: the number of \
            its members, its newest command, the rounds in progress, and the outcomes of the last rounds. For an app: \
            counts, and the activities that have used the most of their budget.

            This command never prints a token; sha256 is the beginning of the output of: printf %s TOKEN | sha256sum. \
            It writes nothing to Redis or Kafka, and joins no group. A Redis user needs ~{* and +get +hgetall +scan \
            +time (and +cluster|slots +asking in a cluster, and +zscore if a policy has lifetimeSeconds). A Kafka user \
            needs Read on the results topic.

            Examples:
              causeway inspect -c causeway.yaml --app com.example.match final-2026
              causeway inspect -c causeway.yaml --app com.example.match
              causeway inspect -c causeway.yaml --device phone-7
              causeway inspect -c causeway.yaml --audience final-2026
              causeway inspect -c causeway.yaml --json final-2026

            Exit codes: 0 success; 1 the name is unknown, or Redis does not reply; 64 the command line is wrong; 78 \
            the configuration is wrong.
            """
    )

    @Argument(help: ArgumentHelp("The activity. Default: the whole app.", valueName: "activity"))
    var activity: String?

    @OptionGroup var configurationFile: ConfigurationFileOption

    @Option(help: ArgumentHelp("The app; optional if there is only one.", valueName: "bundle id"))
    var app: String?

    @Option(help: ArgumentHelp("Show a device instead of an activity.", valueName: "id"))
    var device: String?

    @Option(help: ArgumentHelp("Show an audience instead of an activity.", valueName: "id"))
    var audience: String?

    @Flag(
        help: ArgumentHelp(
            """
            Read all pages of members of a large audience. Default: with more than \(AudienceCensus.pagesMax) pages, \
            estimate.
            """
        )
    )
    var allMembers = false

    @Option(
        help: ArgumentHelp(
            "Maximum number of results to show, 0 to 100. With 0, Kafka is not read.",
            valueName: "number"
        )
    )
    var results = 5

    @Flag(help: "Print one line of JSON, for programs. Times are UNIX milliseconds.")
    var json = false

    func validate() throws {
        guard [activity, device, audience].count(where: { $0 != nil }) <= 1 else {
            throw ValidationError("choose only one of: an activity, --device, --audience")
        }
        guard audience != nil || !allMembers else { throw ValidationError("--all-members needs --audience") }
        guard (0...100).contains(results) else { throw ValidationError("--results must be 0 to 100") }
        let names = [("activity", activity), ("--device", device), ("--audience", audience)]
        for (option, name) in names where name?.isEmpty == true {
            throw ValidationError("\(option): the name is empty")
        }
    }

    func run() throws {
        let configuration = try configurationFile.load(requiresFiles: false)
        let inspectedApp = try chosenApp(in: configuration)
        let queries: RedisQueries
        do {
            queries = try RedisQueries(configuration: RedisConfiguration(configuration.redis))
        } catch {
            StandardStreams.printError("causeway inspect: \(error)")
            throw ExitCode.configurationFault
        }
        defer { queries.close() }
        do {
            if let device {
                try show(device: device, of: inspectedApp, queries)
            } else if let audience {
                try show(audience: audience, of: inspectedApp, queries)
            } else if let activity {
                try show(activity: activity, of: inspectedApp, queries, configuration.kafka)
            } else {
                try showOverview(of: inspectedApp, queries)
            }
        } catch let error as RedisError {
            StandardStreams.printError("causeway inspect: \(error)")
            if error.code == .noPermission {
                StandardStreams.printError(
                    "its Redis user needs ~{* +get +hgetall +scan +time; +cluster|slots +asking in a cluster; and "
                        + "+zscore if a policy has lifetimeSeconds"
                )
            }
            throw ExitCode.failure
        } catch let error as InspectionError {
            StandardStreams.printError("causeway inspect: \(error)")
            throw ExitCode.failure
        }
    }

    private func chosenApp(in configuration: WorkerConfiguration) throws(ValidationError) -> InspectedApp {
        let bundles = configuration.apps.map(\.bundleId).joined(separator: ", ")
        guard let app = app ?? (configuration.apps.count == 1 ? configuration.apps[0].bundleId : nil) else {
            throw ValidationError("choose an app with --app: \(bundles)")
        }
        guard let configuredApp = configuration.apps.first(where: { $0.bundleId == app }) else {
            throw ValidationError("--app \(app): is not in the configuration, which has \(bundles)")
        }
        return InspectedApp(
            bundleId: app,
            defaultPolicyName: configuredApp.policy,
            policies: configuration.policies
        )
    }

    private func show(
        activity: String,
        of app: InspectedApp,
        _ queries: RedisQueries,
        _ kafka: WorkerConfiguration.Kafka
    ) throws {
        let key = app.activityKey(activity)
        let value = try queries.readStrings([key])[0]
        let nowMilliseconds = try queries.readServerWallMilliseconds(for: key)
        let resultSection =
            results == 0
            ? nil : ResultSection(of: activity, app: app.bundleId, resultsMax: results, kafka: kafka)
        if value.isEmpty {
            if let resultSection, !json { print(resultSection.lines(nowMilliseconds: nowMilliseconds)) }
            throw reportUnknown("activity", activity, of: app)
        }
        let report = ActivityReport(
            try ActivityInspection(value: value),
            app: app,
            activity: activity,
            policy: app.policyOrDefault(named: resultSection?.policyName),
            lifetimeEndsAtMilliseconds: app.limitsLifetimes ? try readLifetimeEndMilliseconds(of: key, queries) : nil,
            nowMilliseconds: nowMilliseconds
        )
        print(
            json
                ? [report.json(results: resultSection?.json).oneLineJSON]
                : report.lines() + (resultSection?.lines(nowMilliseconds: nowMilliseconds) ?? [])
        )
    }

    private func readLifetimeEndMilliseconds(of key: [UInt8], _ queries: RedisQueries) throws -> Int64? {
        let timetable = LifetimeKey.timetableKey(key.withUnsafeBytes { LifetimeKey.timetableNumber(ofActivityKey: $0) })
        return try queries.readScore(of: key, in: timetable).flatMap { Int64(exactly: $0.rounded()) }
    }

    private func show(device: String, of app: InspectedApp, _ queries: RedisQueries) throws {
        let key = app.deviceKey(device)
        let fields = try queries.readHash(key)
        if fields.isEmpty { throw reportUnknown("device", device, of: app) }
        let report = DeviceReport(
            try DeviceInspection(fields: fields),
            app: app,
            device: device,
            policy: app.policyOrDefault(named: nil),
            nowMilliseconds: try queries.readServerWallMilliseconds(for: key)
        )
        print(json ? [report.json.oneLineJSON] : report.lines())
    }

    private func show(audience: String, of app: InspectedApp, _ queries: RedisQueries) throws {
        guard let audienceKeys = AudienceKeyWriter(app: app.bundleId, audience: audience) else {
            throw reportUnknown("audience", audience, of: app)
        }
        let fields = try queries.readHash(audienceKeys.audienceKey)
        let census = try AudienceCensus(
            of: audienceKeys,
            pagesMax: allMembers ? nil : AudienceCensus.pagesMax,
            queries
        )
        if fields.isEmpty && census.pageCount == 0 { throw reportUnknown("audience", audience, of: app) }
        let report = AudienceReport(
            try AudienceInspection(fields: fields),
            census,
            app: app,
            audience: audience,
            resultsMax: results,
            nowMilliseconds: try queries.readServerWallMilliseconds(for: audienceKeys.audienceKey)
        )
        print(json ? [report.json.oneLineJSON] : report.lines())
    }

    private func showOverview(of app: InspectedApp, _ queries: RedisQueries) throws {
        let policy = app.policyOrDefault(named: nil)
        let scan = try queries.scanKeys(match: app.activityKeyPattern, keysMax: AppOverview.activitiesMax)
        let nowMilliseconds = try queries.readServerWallMilliseconds()
        var overview = AppOverview()
        for start in stride(from: 0, to: scan.keys.count, by: AppOverview.activitiesPerBatch) {
            let keys = Array(scan.keys[start..<min(start + AppOverview.activitiesPerBatch, scan.keys.count)])
            for (key, value) in zip(keys, try queries.readStrings(keys)) where !value.isEmpty {
                guard let inspection = try? ActivityInspection(value: value) else {
                    overview.countUnreadableActivity()
                    continue
                }
                overview.add(
                    ActivityReport(
                        inspection,
                        app: app,
                        activity: app.activity(ofKey: key),
                        policy: policy,
                        nowMilliseconds: nowMilliseconds
                    )
                )
            }
        }
        print(
            json
                ? [
                    overview.json(
                        app: app,
                        policy: policy,
                        nowMilliseconds: nowMilliseconds,
                        isComplete: scan.isComplete
                    )
                    .oneLineJSON
                ]
                : overview.lines(
                    app: app,
                    policy: policy,
                    nowMilliseconds: nowMilliseconds,
                    isComplete: scan.isComplete
                )
        )
    }

    private func print(_ lines: [String]) {
        for line in lines { StandardStreams.printOutput(line) }
    }

    private func reportUnknown(_ kind: String, _ name: String, of app: InspectedApp) -> ExitCode {
        StandardStreams.printError("causeway inspect: Redis has no \(kind) \(name) of \(app.bundleId)")
        return .failure
    }
}
