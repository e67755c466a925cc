import Delivery
import Kafka
import LiveActivity

/// The headers of a record of the deferred topic.
///
/// - `source`, for operators: topic, partition and offset of the original record.
/// - `cause`, for operators: why the command was deferred.
/// - `attempts`, for operators: how often the command has been deferred.
/// - `due`, for the Kafka thread: when the record must be read, UNIX milliseconds.
/// - `state`, for the lane that reads the record: the fields of a ``Deferral`` in their order, as numbers
///   separated by spaces. Only `isHeldStart` and `isReread` share a number.
/// - `dropped`: the oversize fields that the body has lost (``DroppedFieldsHeader``). A release that does not know this
///   header ignores it.
///
/// If the command has a trace, the record also has the trace headers.
enum DeferredHeaders {
    /// Lanes of this release write a `state` of exactly this many numbers. A record whose `state` has more or fewer
    /// numbers becomes a dead letter with the error `notDeferred`.
    private static let numbersPerState = 18
    /// The accepted range of times in `state`; -1: the time is absent. No worker writes a time outside this range.
    private static let validMilliseconds = Int64(-1)...1 << 53

    static func append(
        _ view: RecordView,
        topic: [UInt8],
        dueWallMilliseconds: Int64,
        to headers: inout ProducedHeaders
    ) {
        let deferral = view.deferral
        let topic = String(decoding: topic, as: UTF8.self)
        append("source", "\(topic)/\(deferral.sourcePartition)/\(deferral.sourceOffset)", to: &headers)
        append("cause", "\(view.deferralCause.name)", to: &headers)
        append("attempts", "\(deferral.count)", to: &headers)
        append("due", "\(dueWallMilliseconds)", to: &headers)
        append("state", makeStateText(of: deferral), to: &headers)
        DroppedFieldsHeader.append(view.droppedFields, to: &headers)
    }

    private static func append(_ name: StaticString, _ text: String, to headers: inout ProducedHeaders) {
        var text = text
        text.withUTF8 { headers.append(name, UnsafeRawBufferPointer($0)) }
    }

    /// Returns when the record must be read, UNIX milliseconds; nil if the header `due` is missing or malformed.
    static func readDueWallMilliseconds(of message: borrowing Message) -> Int64? {
        guard let due = message.headers?.lastValue(named: "due") else { return nil }
        return Int64(String(decoding: due, as: UTF8.self))
    }

    /// Returns the deferral that a record's headers describe. Nil if the header `state` is missing or malformed: then
    /// no lane of this release has written the record.
    static func readDeferral(of message: borrowing Message) -> Deferral? {
        message.headers?.lastValue(named: "state").flatMap { parseDeferral(String(decoding: $0, as: UTF8.self)) }
    }

    static func makeStateText(of deferral: Deferral) -> String {
        let alert = deferral.carriedAlertVersion
        // Limit two times to the range that `readDeferral` accepts: a producer chooses the record's timestamp, and a
        // token's registration time may come from this timestamp.
        let recordTimestampMilliseconds = clampedMilliseconds(deferral.recordTimestampMilliseconds)
        let registeredAtWallMilliseconds = clampedMilliseconds(deferral.registeredAtWallMilliseconds)
        let numbers: [any FixedWidthInteger] = [
            deferral.sourceTopic.rawValue, deferral.sourcePartition, deferral.sourceOffset, deferral.count,
            recordTimestampMilliseconds, deferral.receivedAtWallMilliseconds, deferral.attemptCount,
            deferral.earlierResultCount,
            deferral.supersededCount, registeredAtWallMilliseconds, deferral.claim, makeFlags(of: deferral),
            alert?.timestamp ?? -1, alert?.sequence ?? 0, deferral.priorityWithoutAlert,
            deferral.wasAlertRemovedByAge ? 1 : 0,
            deferral.serviceFailureCount, deferral.pauseEndWallMilliseconds,
        ]
        return numbers.map { "\($0)" }.joined(separator: " ")
    }

    private static func clampedMilliseconds(_ milliseconds: Int64) -> Int64 {
        min(max(milliseconds, validMilliseconds.lowerBound), validMilliseconds.upperBound)
    }

    private static let heldStartFlag: UInt8 = 1
    private static let rereadFlag: UInt8 = 2

    private static func makeFlags(of deferral: Deferral) -> UInt8 {
        (deferral.isHeldStart ? heldStartFlag : 0) | (deferral.isReread ? rereadFlag : 0)
    }

    static func parseDeferral(_ state: String) -> Deferral? {
        var numbers = state.split(separator: " ", omittingEmptySubsequences: false)[...]
        guard numbers.count == numbersPerState else { return nil }
        func readNumber<Number: FixedWidthInteger>(_: Number.Type) -> Number? { Number(numbers.removeFirst()) }
        guard let topic = readNumber(UInt8.self).flatMap(RecordTopic.init(rawValue:)), topic != .deferred,
            let partition = readNumber(Int32.self), let offset = readNumber(Int64.self), partition >= 0, offset >= 0,
            let count = readNumber(UInt16.self),
            let recordTimestampMilliseconds = readNumber(Int64.self),
            let receivedAtWallMilliseconds = readNumber(Int64.self),
            let attemptCount = readNumber(UInt8.self), let earlierResultCount = readNumber(UInt8.self),
            let supersededCount = readNumber(UInt32.self), let registeredAtWallMilliseconds = readNumber(Int64.self),
            let claim = readNumber(UInt64.self), let flags = readNumber(UInt8.self),
            let alertTimestamp = readNumber(Int64.self), let alertSequence = readNumber(UInt64.self),
            let priorityWithoutAlert = readNumber(UInt8.self),
            priorityWithoutAlert == 0 || PushPriority.isValid(priorityWithoutAlert),
            let alertRemovedByAgeNumber = readNumber(UInt8.self), let serviceFailureCount = readNumber(UInt8.self),
            let pauseEndWallMilliseconds = readNumber(Int64.self),
            [
                recordTimestampMilliseconds, receivedAtWallMilliseconds, registeredAtWallMilliseconds,
                pauseEndWallMilliseconds,
            ]
            .allSatisfy(validMilliseconds.contains),
            alertTimestamp < 0 || (Limits.timestampMin...Limits.timestampMax).contains(alertTimestamp)
        else { return nil }
        return Deferral(
            sourceTopic: topic,
            sourcePartition: partition,
            sourceOffset: offset,
            count: count,
            recordTimestampMilliseconds: recordTimestampMilliseconds,
            receivedAtWallMilliseconds: receivedAtWallMilliseconds,
            attemptCount: attemptCount,
            earlierResultCount: earlierResultCount,
            supersededCount: supersededCount,
            registeredAtWallMilliseconds: registeredAtWallMilliseconds,
            claim: claim,
            isHeldStart: flags & heldStartFlag != 0,
            isReread: flags & rereadFlag != 0,
            carriedAlertVersion: alertTimestamp < 0
                ? nil : Version(timestamp: alertTimestamp, sequence: alertSequence),
            priorityWithoutAlert: priorityWithoutAlert,
            wasAlertRemovedByAge: alertRemovedByAgeNumber == 1,
            serviceFailureCount: serviceFailureCount,
            pauseEndWallMilliseconds: pauseEndWallMilliseconds
        )
    }
}
