import ActivityStore
import CausewayConfiguration
import Delivery
import Kafka
import LiveActivity

/// Which apps, policies and activities a replay concerns: all of the configuration, or only the app or activity that
/// the options choose.
struct ReplayScope {
    let apps: [InspectedApp]
    /// The only app to replay; nil: all apps.
    var onlyApp: String?
    var onlyActivity: String?
    /// The contract of each app; nil if it has none, or if a worker only warns of commands that break it. The contracts
    /// are never deallocated, because the program needs them until it ends.
    private let contracts: [UnmanagedContract?]

    /// - Parameter contractRules: the contract of each app; nil: the app has none.
    init(_ configuration: WorkerConfiguration, contractRules: [ContractRule?], app: String?, activity: String?) {
        apps = configuration.apps.map {
            InspectedApp(bundleId: $0.bundleId, defaultPolicyName: $0.policy, policies: configuration.policies)
        }
        contracts = contractRules.map { rule in
            rule.flatMap { $0.rejectsMismatches ? UnmanagedContract(copying: $0.contract) : nil }
        }
        onlyApp = app
        onlyActivity = activity
    }

    /// Whether any policy starts activities again after their lifetime. If so, a replay also sends or restores an end
    /// that is older than the activity's newest start (R13). The core's `PolicyTable` has the same property.
    var restartsActivities: Bool { apps.contains { $0.policies.contains(where: \.restartsActivities) } }

    func includes(_ activity: [UInt8]) -> Bool { onlyActivity.map { $0.utf8.elementsEqual(activity) } ?? true }

    func includes(app name: String) -> Bool { onlyApp.map { $0 == name } ?? true }

    /// Returns the app's index; nil if the app is unknown. As in a worker, a bundle id with JSON escapes counts as
    /// unknown.
    func appIndex(_ name: TextRange, in record: UnsafeRawBufferPointer) -> Int? {
        let bytes = name.range.bytes(in: record)
        return apps.firstIndex { $0.bundleId.utf8.elementsEqual(bytes) }
    }

    /// Returns the policy that the command names, or the app's default policy if it names none. Returns nil if the
    /// named policy is not configured.
    func policy(of command: Command, appIndex: Int, in record: UnsafeRawBufferPointer) -> Policy? {
        guard !command.policy.isAbsent else { return apps[appIndex].policyOrDefault(named: nil) }
        let name = command.policy.text(in: record)
        return apps[appIndex].policies.first { $0.name == name }
    }
}

/// The kinds of records that a replay distinguishes.
enum RecordClassification: Equatable {
    /// A command. `redisKey` is the key of its activity or audience in Redis.
    case command(ReplayCandidate, redisKey: [UInt8], appIndex: Int)
    /// A record that a worker would refuse. `code` is the code of its result.
    case invalid(code: String, appIndex: Int?)
    /// A record of the registrations topic, or a dead letter of such a record.
    case registration
    /// A record that is not replayed: the options exclude it, or it is a command to a channel that its producer
    /// manages. With `--app` or `--activity`, also a record that cannot be read or names an unknown app.
    case skipped
}

extension ReplayScope {
    private func redisKey(of candidate: ReplayCandidate, _ addressee: [UInt8], appIndex: Int) -> [UInt8] {
        let name = apps[appIndex].bundleId
        guard candidate.audience != nil else { return ActivityKey.key(app: Array(name.utf8), activity: addressee) }
        return AudienceKeyWriter(app: name, audience: String(decoding: addressee, as: UTF8.self))?.audienceKey ?? []
    }

    /// Returns the record without the fields that its policy drops from a body that is too large. Returns nil if the
    /// body stays too large.
    private static func makeFittingRecord(
        _ value: UnsafeRawBufferPointer,
        of command: Command,
        policy: Policy
    ) -> [UInt8]? {
        if command.fitsBodyLimit { return Array(value) }
        return withUnsafeTemporaryAllocation(byteCount: value.count, alignment: 1) { buffer in
            let count = OversizeFields(policy.oversize).drop(from: value, of: command, into: buffer).byteCount
            let smallerRecord = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            return (try? Command.decode(smallerRecord)) == nil ? nil : Array(smallerRecord)
        }
    }

    /// Whether a worker refuses the command because no phone could decode it.
    private func isUndecodable(_ record: [UInt8], appIndex: Int) -> Bool {
        guard let contract = contracts[appIndex] else { return false }
        return record.withUnsafeBytes { bytes in
            // Causeway made the lifetime commands itself, so a worker does not check them.
            guard let command = try? Command.decode(bytes), !command.isLifetimeCommand(in: bytes) else { return false }
            do throws(ContractMismatch) {
                try contract.check(command, in: bytes)
                return false
            } catch {
                return true
            }
        }
    }

    /// Returns the kind of a record, by the rules by which a worker reads records.
    ///
    /// - Parameter isWrittenByCauseway: whether the record may have the keys that only Causeway may write. A fan-out
    ///   record has them if its command carries an older command's alert.
    func classify(
        _ value: UnsafeRawBufferPointer?,
        key: UnsafeRawBufferPointer?,
        _ position: (partition: Int32, offset: Int64, timestampMilliseconds: Int64),
        isUnread: Bool,
        isWrittenByCauseway: Bool = false,
        nowMilliseconds: Int64
    ) -> RecordClassification {
        let isLimited = onlyApp != nil || onlyActivity != nil
        guard let value else { return isLimited ? .skipped : .invalid(code: "emptyRecord", appIndex: nil) }
        do throws(Fault) {
            let command =
                try isWrittenByCauseway
                ? Command.decodeWrittenByCauseway(value) : Command.decodeIgnoringBodyLimit(value)
            guard let appIndex = appIndex(command.app, in: value) else {
                return isLimited ? .skipped : .invalid(code: "unknownApp", appIndex: nil)
            }
            // Redis has no record of a channel that the producer manages, so a replay cannot decide about its commands.
            guard command.channel.isAbsent else { return .skipped }
            let isOfAudience = !command.audience.isAbsent
            let addressee = (isOfAudience ? command.audience : command.activity).bytes(in: value)
            let isIncluded = isOfAudience ? onlyActivity == nil : includes(addressee)
            guard includes(app: apps[appIndex].bundleId), isIncluded else { return .skipped }
            if (try? command.checkTimestamp(nowSeconds: nowMilliseconds / 1_000)) == nil {
                return .invalid(code: "timestampInFuture", appIndex: appIndex)
            }
            guard let policy = policy(of: command, appIndex: appIndex, in: value) else {
                return .invalid(code: "unknownPolicy", appIndex: appIndex)
            }
            guard let fittingRecord = Self.makeFittingRecord(value, of: command, policy: policy) else {
                return .invalid(code: "\(command.bodyTooLargeFault.code.name)", appIndex: appIndex)
            }
            guard !isUndecodable(fittingRecord, appIndex: appIndex) else {
                return .invalid(code: "undecodable", appIndex: appIndex)
            }
            let candidate = ReplayCandidate(
                event: command.event,
                version: command.version,
                audience: isOfAudience ? addressee : nil,
                partition: position.partition,
                offset: position.offset,
                timestampMilliseconds: position.timestampMilliseconds,
                isUnread: isUnread,
                key: key.map { Array($0) },
                value: fittingRecord
            )
            return .command(
                candidate,
                redisKey: redisKey(of: candidate, addressee, appIndex: appIndex),
                appIndex: appIndex
            )
        } catch {
            if isLimited { return .skipped }
            let isRegistration = (try? Registration.decode(value)) != nil
            return isRegistration ? .registration : .invalid(code: "\(error.code.name)", appIndex: nil)
        }
    }
}
