import CausewayWorker
import Foundation
import LiveActivity

/// Calls the worker's decoders and writers. Only this file imports the worker's modules, because their types have the
/// same names as those of the tested library.
enum WorkerCodec {
    /// Returns why the worker cannot decode a command; nil if it can.
    static func commandFault(_ value: Data) -> String? {
        fault(value) { bytes throws(Fault) in _ = try Command.decode(bytes) }
    }

    static func registrationFault(_ value: Data) -> String? {
        fault(value) { bytes throws(Fault) in _ = try Registration.decode(bytes) }
    }

    private static func fault(_ value: Data, _ decode: (UnsafeRawBufferPointer) throws(Fault) -> Void) -> String? {
        value.withUnsafeBytes { bytes in
            do throws(Fault) {
                try decode(bytes)
                return nil
            } catch {
                return error.message(in: bytes)
            }
        }
    }

    /// Returns the body that the worker sends to APNs for a command.
    static func body(_ value: Data) throws -> Data {
        try value.withUnsafeBytes { bytes in
            let command = try Command.decode(bytes)
            var room = [UInt8](repeating: 0, count: command.bodyByteCount)
            _ = room.withUnsafeMutableBytes { PushBody.write(command, from: bytes, into: $0) }
            return Data(room)
        }
    }

    /// Returns the digest by which the worker recognizes an unchanged state.
    static func digest(_ value: Data) throws -> UInt64 {
        try value.withUnsafeBytes { bytes in
            let command = try Command.decode(bytes)
            var room = [UInt8](repeating: 0, count: command.bodyByteCount)
            return room.withUnsafeMutableBytes { target in
                PushBody.digest(UnsafeRawBufferPointer(target), PushBody.write(command, from: bytes, into: target))
            }
        }
    }

    private static func written(_ write: (inout JSONWriter) -> Void) -> Data {
        var writer = JSONWriter()
        write(&writer)
        return Data(writer.bytes)
    }

    private static func withText<Value>(_ text: String, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows
        -> Value
    {
        try Array(text.utf8).withUnsafeBytes(body)
    }

    private static func withTexts<Value>(
        _ first: String,
        _ second: String,
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Value
    ) -> Value {
        withText(first) { first in withText(second) { second in body(first, second) } }
    }

    /// Returns a command's result that has every field.
    static func commandResult() -> Data {
        withText("ride-3") { text in
            withTexts("Y2g=", "lineups,odds") { channel, dropped in
                var result = ResultRecord(outcome: .accepted, sourceTopic: text, sourcePartition: 3, sourceOffset: 17)
                (result.commandIdentifier, result.app, result.activity, result.audience) = (text, text, text, text)
                (result.device, result.reason, result.policy) = (text, text, text)
                (result.channel, result.droppedFieldNames) = ((channel, .sandbox), dropped)
                (result.supersededCount, result.status, result.priority, result.isDemoted) = (12, 200, 5, true)
                result.isLifetimeCommand = true
                (result.budgetLeft, result.attemptCount, result.sentTimestamp) = (14, 2, 1_790_000_000)
                result.apnsId = (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210)
                (result.recordTimestampMilliseconds, result.receivedAtMilliseconds) = (
                    1_790_000_000_001, 1_790_000_000_002
                )
                (result.admittedAtMilliseconds, result.sentAtMilliseconds) = (1_790_000_000_003, 1_790_000_000_004)
                result.responseAtMilliseconds = 1_790_000_000_999
                return written { result.write(to: &$0) }
            }
        }
    }

    /// Returns the result of a record that the worker could not read.
    static func invalidResult() -> Data {
        withText("causeway.commands") { topic in
            let result = ResultRecord(outcome: .invalid, sourceTopic: topic, sourcePartition: 0, sourceOffset: 7)
            return written { result.write(to: &$0) }
        }
    }

    private static func withCommandReference<Value>(_ body: (AudienceCommandReference) -> Value) -> Value {
        withText("cup-final") { text in
            body(
                AudienceCommandReference(
                    identifier: text,
                    app: text,
                    audience: text,
                    sourceTopic: text,
                    sourcePartition: 3,
                    sourceOffset: 17
                )
            )
        }
    }

    /// Calls the body with a reference to an audience's command, and with the names of the command's dropped fields.
    private static func withReferenceAndDroppedFields<Value>(
        _ body: (AudienceCommandReference, UnsafeRawBufferPointer) -> Value
    )
        -> Value
    {
        withCommandReference { reference in withText("lineups,odds") { dropped in body(reference, dropped) } }
    }

    private static var counts: MemberOutcomeCounts {
        var counts = MemberOutcomeCounts()
        (counts[.delivered], counts[.unregistered]) = (247_484, 48)
        return counts
    }

    private static let times = ResponseTimes(
        firstResponseAtMilliseconds: 1_790_000_004_098,
        lastResponseAtMilliseconds: 1_790_000_009_870
    )

    static func rangeResult() throws -> Data {
        guard let range = SegmentRange(index: 0, rangeCount: 4) else { throw CocoaError(.featureUnsupported) }
        return withCommandReference { reference in
            written {
                RangeResultRecord(command: reference, range: range, memberCounts: counts, times: times).write(to: &$0)
            }
        }
    }

    static func audienceResult() -> Data {
        withReferenceAndDroppedFields { reference, dropped in
            var result = AudienceResultRecord(
                command: reference,
                memberCounts: counts,
                times: times,
                timestamp: 1_790_000_004,
                rangeCount: 4
            )
            (result.broadcastCounts, result.channelAbsence, result.isDemoted) = (counts, .notInTime, true)
            (result.wasAlertRemovedByAge, result.recordTimestampMilliseconds, result.admittedAtMilliseconds) = (
                true, 1, 2
            )
            result.droppedFieldNames = dropped
            return written { result.write(to: &$0) }
        }
    }

    static func broadcastResult() throws -> Data {
        guard let identifier = ChannelIdentifier("Y2g=") else { throw CocoaError(.featureUnsupported) }
        return withText("BadChannelId") { reason in
            withReferenceAndDroppedFields { reference, dropped in
                var result = BroadcastResultRecord(
                    command: reference,
                    channel: AudienceChannel(environment: .production, storage: .newest, identifier: identifier),
                    outcome: .failed,
                    reason: reason,
                    times: times
                )
                (result.status, result.advice, result.droppedFieldNames) = (400, "create one", dropped)
                return written { result.write(to: &$0) }
            }
        }
    }

    static func invalidation(ofDevice: Bool) -> Data {
        withText("00ff00ff") { text in
            let record = InvalidationRecord(
                app: text,
                address: ofDevice ? .device(text) : .activity(text),
                token: text,
                environment: .sandbox,
                reason: text,
                invalidAtMilliseconds: 1_790_000_000_123
            )
            return written { record.write(to: &$0) }
        }
    }

    static func channel(isEnded: Bool) -> (key: String, value: Data) {
        var entry = ChannelEntry(
            app: "com.example.match",
            environment: "production",
            audience: "cup-final",
            channel: "dHN0LXNyY2gtY2hubA==",
            storage: .newest,
            createdAtWallMilliseconds: 1_790_000_000_123
        )
        if isEnded { (entry.state, entry.deletionDueWallMilliseconds) = (.deleting, 1_790_003_600_000) }
        return (entry.recordKey, Data(entry.recordValue))
    }
}
