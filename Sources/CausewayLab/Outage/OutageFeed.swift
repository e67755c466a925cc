import APNsSimulator
import CausewayCommandLine
import Kafka
import LiveActivity

/// Writes the commands of one app when they are due, and keeps copies of them until ``takeCommands()``.
struct OutageFeed {
    /// The beginning of the year 2100, UNIX seconds.
    private static let farFutureTimestamp: Int64 = 4_102_444_800

    let app: OutageApp
    private(set) var commands: [OutageHistory.Command] = []
    /// The number of commands that each activity has got.
    private var commandCounts: [UInt64]
    private var nextCommandIndex = 0
    private(set) var isFinished = false

    init(app: OutageApp) {
        self.app = app
        commandCounts = Array(repeating: 0, count: app.activityCount)
    }

    /// Writes the commands that are due. In each `commandIntervalMilliseconds`, every activity gets one command, and
    /// the commands are spread evenly over this time. When the app's `durationMilliseconds` are over, every activity
    /// gets one more command, and the feed is finished.
    ///
    /// - Parameter elapsedMilliseconds: the time since the first command.
    mutating func writeDueCommands(elapsedMilliseconds: Int64, _ commandProducer: CommandProducer) throws(LabError) {
        guard !isFinished else { return }
        let writingMilliseconds = min(elapsedMilliseconds, app.durationMilliseconds)
        let dueCommandCount = Int(writingMilliseconds * Int64(app.activityCount) / app.commandIntervalMilliseconds)
        while nextCommandIndex < dueCommandCount {
            let activityIndex = nextCommandIndex % app.activityCount
            try write(isNextCommandStart(activityIndex) ? .start : .update, activityIndex, commandProducer)
            nextCommandIndex += 1
        }
        guard elapsedMilliseconds >= app.durationMilliseconds else { return }
        for activityIndex in 0..<app.activityCount {
            let isEnd = app.endEveryNthActivity > 0 && activityIndex % app.endEveryNthActivity == 0
            try write(
                isNextCommandStart(activityIndex) ? .start : isEnd ? .end : .update,
                activityIndex,
                commandProducer
            )
        }
        isFinished = true
    }

    /// Removes and returns the commands that were written since the last call.
    mutating func takeCommands() -> [OutageHistory.Command] {
        defer { commands.removeAll(keepingCapacity: true) }
        return commands
    }

    private func isNextCommandStart(_ activityIndex: Int) -> Bool {
        commandCounts[activityIndex] == 0 && activityIndex < app.pushStartedActivityCount
    }

    private mutating func write(_ event: Event, _ activityIndex: Int, _ commandProducer: CommandProducer)
        throws(LabError)
    {
        commandCounts[activityIndex] += 1
        let nowMilliseconds = Clock.wallMilliseconds
        let command = makeCommand(event, activityIndex, nowMilliseconds: nowMilliseconds)
        commands.append(command)
        try produce(encodeRecord(of: command, activityIndex), key: command.activity, commandProducer)
    }

    private func makeCommand(_ event: Event, _ activityIndex: Int, nowMilliseconds: Int64) -> OutageHistory.Command {
        let number = commandCounts[activityIndex]
        let isFarFuture = number == app.farFutureTimestampCommandNumber
        let timestamp = isFarFuture ? Self.farFutureTimestamp : nowMilliseconds / 1_000 - app.timestampAgeSeconds
        let activity = app.activityIdentifier(activityIndex)
        let hasAlert = event == .start || (Int(number) + activityIndex) % app.alertEveryNthCommand == 0
        return OutageHistory.Command(
            app: app.name,
            activity: activity,
            event: event,
            version: Version(timestamp: timestamp, sequence: number),
            alertTitle: hasAlert ? "Alert \(number) of \(activity)" : nil,
            stateDigest: Self.contentState(activity, number).withUnsafeBytes { LoggedDigest.hexadecimal($0) },
            producedAtMilliseconds: nowMilliseconds,
            isValid: !isFarFuture
        )
    }

    /// Returns the content state of a command. No two commands have the same state. So the state on a phone or in the
    /// push log shows which command it came from.
    static func contentState(_ activity: String, _ number: UInt64) -> [UInt8] {
        JSONWriter.object { json in
            json.member("activity", activity)
            json.member("number", Int(number))
        }
    }

    private func encodeRecord(of command: OutageHistory.Command, _ activityIndex: Int) -> [UInt8] {
        JSONWriter.object { json in
            json.member("id", command.identifier)
            json.member("app", app.bundleId)
            json.member("activity", command.activity)
            if command.event == .start { json.member("device", app.deviceIdentifier(of: activityIndex)) }
            json.member("sequence", Int(command.version.sequence))
            json.member("aps") { json in
                json.member("event", "\(command.event.name)")
                json.member("timestamp", Int(command.version.timestamp))
                json.member("content-state", verbatim: Self.contentState(command.activity, command.version.sequence))
                if command.event == .start {
                    json.member("attributes-type", OutageSimulator.attributesType)
                    json.member("attributes") { $0.member("activity", command.activity) }
                }
                if let alertTitle = command.alertTitle {
                    json.member("alert") { json in
                        json.member("title", alertTitle)
                        json.member("body", "Something happened")
                    }
                }
            }
        }
    }

    private func produce(_ value: [UInt8], key: String, _ commandProducer: CommandProducer) throws(LabError) {
        var key = key
        let outcome = value.withUnsafeBytes { value in
            key.withUTF8 { key in
                commandProducer.producer.produce(
                    topic: commandProducer.commandsTopic,
                    key: UnsafeRawBufferPointer(key),
                    value: value,
                    tag: 0
                )
            }
        }
        if case .queued = outcome { return }
        throw LabError("a command could not be produced: \(outcome)")
    }
}
