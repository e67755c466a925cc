import Numbers

/// The record for the results topic that says what became of one command. Texts are plain bytes without escapes, which
/// must stay valid until ``write(to:)`` has returned.
public struct ResultRecord {
    /// The command's `id`. If it is absent, the result names the command by its place, `topic/partition/offset`.
    public var commandIdentifier: UnsafeRawBufferPointer?
    /// The app's bundle id; nil if the record could not be decoded, or names no configured app.
    public var app: UnsafeRawBufferPointer?
    public var activity: UnsafeRawBufferPointer?
    public var audience: UnsafeRawBufferPointer?
    /// The channel of a command that names a channel instead of an activity or an audience.
    public var channel: (identifier: UnsafeRawBufferPointer, environment: APNsEnvironment)?
    public var device: UnsafeRawBufferPointer?
    public var outcome: Outcome
    /// The number of older commands that this command replaced and that get no result of their own. If each got a
    /// result, nearly all results of a backlog would be `superseded`.
    public var supersededCount: Int = 0
    /// The HTTP status of APNs' last response; 0 if there was no response.
    public var status: UInt16 = 0
    /// A reason of APNs, of Redis or of Causeway, or the code of the record's fault; nil if there is none.
    public var reason: UnsafeRawBufferPointer?
    /// Whether Causeway made the command, because the activity's lifetime was over.
    public var isLifetimeCommand = false
    /// `apns-id`, a UUID: its first and its last eight bytes. Nil if nothing was sent, and in the result of one member
    /// of an audience.
    public var apnsId: (UInt64, UInt64)?
    /// The priority that was sent, 5 or 10; 0 if nothing was sent, and in the result of one member of an audience.
    public var priority: UInt8 = 0
    /// Whether the command asked for priority 10 and Redis granted 5, because the activity's budget was empty, or had
    /// only the reserve for alerts and ends left.
    public var isDemoted = false
    /// How many pushes of priority 10 the activity's budget still has after this push, including the budget's reserve.
    /// -1 for a start, for a member of an audience, and if Redis allowed no push.
    public var budgetLeft = -1
    /// The names of the fields that were dropped because the body was too large, separated by commas; empty if there
    /// are none.
    public var droppedFieldNames = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The policy that the command names.
    public var policy: UnsafeRawBufferPointer?
    /// The number of requests that were made to APNs.
    public var attemptCount: Int = 0
    /// The `aps.timestamp` that was sent, UNIX seconds; -1 if nothing was sent.
    public var sentTimestamp: Int64 = -1
    /// The place from which the command was read: topic, partition and offset.
    public var sourceTopic: UnsafeRawBufferPointer
    public var sourcePartition: Int32
    public var sourceOffset: Int64

    // The following times are UNIX milliseconds; -1: the time is not known.

    /// The timestamp of the command's record in Kafka.
    public var recordTimestampMilliseconds: Int64 = -1
    /// When the worker received the record.
    public var receivedAtMilliseconds: Int64 = -1
    /// When Redis admitted the command.
    public var admittedAtMilliseconds: Int64 = -1
    /// When the command was last sent to APNs.
    public var sentAtMilliseconds: Int64 = -1
    /// When APNs' last response came.
    public var responseAtMilliseconds: Int64 = -1

    public init(
        outcome: Outcome,
        sourceTopic: UnsafeRawBufferPointer,
        sourcePartition: Int32,
        sourceOffset: Int64
    ) {
        self.outcome = outcome
        self.sourceTopic = sourceTopic
        self.sourcePartition = sourcePartition
        self.sourceOffset = sourceOffset
    }

    /// Appends the record. Absent fields are left out.
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.writeCommandName(commandIdentifier, topic: sourceTopic, partition: sourcePartition, offset: sourceOffset)
        writer.member("app", app)
        writer.member("activity", activity)
        writer.member("audience", audience)
        if let channel {
            writer.member("channel", channel.identifier)
            writer.key("environment")
            writer.string(channel.environment.name)
        }
        writer.member("device", device)
        writer.key("outcome")
        writer.string(outcome.name)
        if supersededCount > 0 { writer.member("superseded", Int64(supersededCount)) }
        if status != 0 { writer.member("status", Int64(status)) }
        writer.member("reason", reason)
        if isLifetimeCommand {
            writer.key("cause")
            writer.string("lifetime")
        }
        if let apnsId {
            writer.key("apnsId")
            writer.writeUUID(apnsId.0, apnsId.1)
        }
        if priority != 0 { writer.member("priority", Int64(priority)) }
        if isDemoted {
            writer.key("demoted")
            writer.boolean(true)
        }
        if budgetLeft >= 0 { writer.member("budgetLeft", Int64(budgetLeft)) }
        writer.writeDroppedFields(droppedFieldNames)
        writer.member("policy", policy)
        writer.member("attempts", Int64(attemptCount))
        if sentTimestamp >= 0 { writer.member("timestamp", sentTimestamp) }
        writer.writeSource(topic: sourceTopic, partition: sourcePartition, offset: sourceOffset)
        writer.key("times")
        writer.beginObject()
        if recordTimestampMilliseconds >= 0 { writer.member("record", recordTimestampMilliseconds) }
        if receivedAtMilliseconds >= 0 { writer.member("received", receivedAtMilliseconds) }
        if admittedAtMilliseconds >= 0 { writer.member("admitted", admittedAtMilliseconds) }
        if sentAtMilliseconds >= 0 { writer.member("sent", sentAtMilliseconds) }
        if responseAtMilliseconds >= 0 { writer.member("responded", responseAtMilliseconds) }
        writer.endObject()
        writer.endObject()
    }
}

extension JSONWriter {
    /// Writes the command's id, or its place `topic/partition/offset` if it has no id.
    @inline(__always)
    mutating func writeCommandName(
        _ identifier: UnsafeRawBufferPointer?,
        topic: UnsafeRawBufferPointer,
        partition: Int32,
        offset: Int64
    ) {
        if let identifier {
            member("command", identifier)
            return
        }
        key("command")
        appendQuote()
        stringContent(topic)
        append(UInt8(ascii: "/"))
        integer(Int64(partition))
        append(UInt8(ascii: "/"))
        integer(offset)
        appendQuote()
    }

    @inline(__always)
    mutating func writeSource(topic: UnsafeRawBufferPointer, partition: Int32, offset: Int64) {
        key("source")
        beginObject()
        member("topic", topic)
        member("partition", Int64(partition))
        member("offset", offset)
        endObject()
    }

    /// Writes a key with a text as its value. Writes nothing for nil.
    @inline(__always)
    mutating func member(_ name: StaticString, _ text: UnsafeRawBufferPointer?) {
        guard let text else { return }
        key(name)
        string(text)
    }

    @inline(__always)
    mutating func member(_ name: StaticString, _ value: Int64) {
        key(name)
        integer(value)
    }

    /// Writes a UUID in its canonical form: lower case, 8-4-4-4-12 (RFC 9562 §4).
    mutating func writeUUID(_ high: UInt64, _ low: UInt64) {
        var text = InlineArray<36, UInt8>(repeating: 0)
        var room = text.mutableSpan
        room.withUnsafeMutableBufferPointer { room in
            if let start = room.baseAddress { Hexadecimal.writeUUID((high, low), to: start) }
        }
        appendQuote()
        text.span.withUnsafeBytes { raw($0) }
        appendQuote()
    }
}
