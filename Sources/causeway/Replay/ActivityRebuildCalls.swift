import ActivityStore
import CausewayCommandLine
import Delivery
import LiveActivity

/// The calls that restore an activity's newest command.
struct ActivityRebuildCalls {
    /// What the calls need from the command.
    private struct CommandParts {
        let admission: StateAdmission<[UInt8]>
        let heldCommand: [UInt8]
        let hasAlert: Bool
    }

    let admissionCall: StoreCall<[UInt8]>
    let settlementCall: StoreCall<[UInt8]>
    let holdCall: StoreCall<[UInt8]>

    /// Prepares the calls, which the caller sends to Redis. Returns nil if the command is expired, or not valid under
    /// this configuration.
    init?(_ candidate: ReplayCandidate, _ activity: [UInt8], appIndex: Int, scope: ReplayScope) {
        let app = Array(scope.apps[appIndex].bundleId.utf8)
        let identifier = ActivityKey.activity(ofKey: activity, app: app)
        let subject = StoreSubject(app: app, kind: .activity, identifier: identifier)
        let readParts = candidate.value.withUnsafeBytes { record in
            Self.readParts(
                of: record,
                recordTimestampMilliseconds: candidate.timestampMilliseconds,
                app: app,
                activity: identifier,
                appIndex: appIndex,
                scope: scope
            )
        }
        guard let parts = readParts else { return nil }
        let version = candidate.version
        admissionCall = StoreCall(tag: 0, subject: subject, operation: .admit(parts.admission))
        // No content has the digest 0. So after this call, Redis does not find the next state unchanged, and a worker
        // sends it. `alert` tells Redis that the command's alert and all older alerts have rung.
        settlementCall = StoreCall(
            tag: 0,
            subject: subject,
            operation: .settle(
                version: version,
                .accepted,
                digest: 0,
                retirement: nil,
                alert: parts.hasAlert ? version : nil
            )
        )
        holdCall = StoreCall(
            tag: 0,
            subject: subject,
            operation: .hold(version: version, command: parts.heldCommand, hasAlert: false)
        )
    }

    /// Decodes the command. Returns nil if it is expired, or not valid under this configuration.
    private static func readParts(
        of record: UnsafeRawBufferPointer,
        recordTimestampMilliseconds: Int64,
        app: [UInt8],
        activity: [UInt8],
        appIndex: Int,
        scope: ReplayScope
    ) -> CommandParts? {
        let nowSeconds = Clock.wallMilliseconds / 1_000
        guard let command = try? Command.decode(record),
            let policy = scope.policy(of: command, appIndex: appIndex, in: record),
            !AgeRules.isExpired(command.expirationSeconds, nowSeconds: nowSeconds)
        else { return nil }
        var admission = ReplayDecider.admission(
            of: command,
            record,
            recordTimestampMilliseconds: recordTimestampMilliseconds,
            pace: policy.pace,
            dropsAlert: command.hasAlert,
            restartsActivities: scope.restartsActivities,
            nowSeconds: nowSeconds
        )
        // With this flag, Redis admits the command even if Redis keeps the alert of an older one. Without the flag,
        // Redis would reply `alertHeld`. The flag does no harm, because a rebuild sends no alert.
        admission.mayReplaceHeldAlert = true
        // If this command brings the activity's first token, the eight hours of updates begin at the time of its
        // record.
        admission.isReread = true
        return CommandParts(
            admission: admission,
            heldCommand: heldCommand(command, of: record, app: app, activity: activity),
            hasAlert: command.hasAlert
        )
    }

    /// Returns the command without its alert, in the form in which the core gives held commands to Redis.
    private static func heldCommand(
        _ command: Command,
        of record: UnsafeRawBufferPointer,
        app: [UInt8],
        activity: [UInt8]
    ) -> [UInt8] {
        withUnsafeTemporaryAllocation(byteCount: command.bodyByteCount * 2, alignment: 1) { memory in
            var layout = PushBody.write(command, from: record, into: memory)
            var body = UnsafeRawBufferPointer(rebasing: memory[..<command.bodyByteCount])
            if command.hasAlert {
                let buffer = UnsafeMutableRawBufferPointer(rebasing: memory[command.bodyByteCount...])
                layout = PushBody.writeWithoutAlert(body, layout, into: buffer)
                body = UnsafeRawBufferPointer(buffer)
            }
            let identifier = command.identifier.isAbsent ? nil : command.identifier.bytes(in: record)
            let policy = command.policy.isAbsent ? nil : command.policy.bytes(in: record)
            var writer = JSONWriter()
            app.withUnsafeBytes { app in
                activity.withUnsafeBytes { activity in
                    withBytes(identifier) { identifier in
                        withBytes(policy) { policy in
                            var heldCommand = CommandRecord(
                                app: app,
                                activity: activity,
                                aps: layout.aps.bytes(in: body)
                            )
                            heldCommand.payloadMembers =
                                layout.payloadMembers.isAbsent ? nil : layout.payloadMembers.bytes(in: body)
                            heldCommand.identifier = identifier
                            heldCommand.policy = policy
                            heldCommand.sequence = command.version.sequence
                            heldCommand.priority = command.priority
                            heldCommand.expirationSeconds = command.expirationSeconds
                            heldCommand.write(to: &writer)
                        }
                    }
                }
            }
            return Array(writer.bytes)
        }
    }

    private static func withBytes(_ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer?) -> Void) {
        guard let bytes else { return body(nil) }
        bytes.withUnsafeBytes { body($0) }
    }
}
