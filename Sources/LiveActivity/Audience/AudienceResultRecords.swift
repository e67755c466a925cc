/// The record for the results topic that says what became of a command to an audience in one range. Texts are plain
/// bytes without escapes, which must stay valid until ``write(to:)`` has returned.
public struct RangeResultRecord {
    public var command: AudienceCommandReference
    public var range: SegmentRange
    public var memberCounts: MemberOutcomeCounts
    public var times: ResponseTimes
    /// Whether a newer version replaced this version before this version had reached all members. The outcome is then
    /// `superseded`, even if no member counts as `superseded` in ``memberCounts``.
    public var isSuperseded = false

    public init(
        command: AudienceCommandReference,
        range: SegmentRange,
        memberCounts: MemberOutcomeCounts,
        times: ResponseTimes
    ) {
        self.command = command
        self.range = range
        self.memberCounts = memberCounts
        self.times = times
    }

    /// Appends the record. Absent fields are left out.
    public func write(to writer: inout JSONWriter) {
        command.writeFirstFields(to: &writer)
        writer.key("segments")
        writer.append(UInt8(ascii: "["))
        writer.integer(Int64(range.firstSegment))
        writer.append(UInt8(ascii: ","))
        writer.integer(Int64(range.firstSegment + range.segmentCount - 1))
        writer.append(UInt8(ascii: "]"))
        writer.writeFanoutOutcome(memberCounts, isSuperseded: isSuperseded)
        command.writeLastFields(times, to: &writer)
    }
}

/// The record for the results topic with the totals of a command to an audience. It is written when the command has
/// finished in all ranges and broadcasts.
public struct AudienceResultRecord {
    public var command: AudienceCommandReference
    public var memberCounts: MemberOutcomeCounts
    /// The number of broadcasts for each outcome; all 0 for a command that is not broadcast.
    public var broadcastCounts = MemberOutcomeCounts()
    /// Why a channel of the audience was missing, in one environment or in both; nil if no channel was missing.
    public var channelAbsence: ChannelAbsence?
    public var times: ResponseTimes
    /// Whether a newer version replaced this version in the range or broadcast that finished last. If true, the outcome
    /// is `superseded`; if false, ``memberCounts`` decides.
    public var isSuperseded = false
    /// Whether the command asked for priority 10, but Redis granted 5 to all members or to some of them. A budget was
    /// then empty, or had only the reserve for alerts and ends left (``AudienceGrant/isDemoted``).
    public var isDemoted = false
    /// Whether the members got the state without its alert, because the alert was too old.
    public var wasAlertRemovedByAge = false
    /// The names of the dropped fields, as in ``ResultRecord/droppedFieldNames``.
    public var droppedFieldNames = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The `aps.timestamp` that was sent, UNIX seconds.
    public var timestamp: Int64
    /// The number of ranges into which the members were divided. Each range has a result of its own.
    public var rangeCount: Int
    /// The timestamp of the command's record in Kafka, UNIX milliseconds; -1 if not known.
    public var recordTimestampMilliseconds: Int64 = -1
    /// When Redis admitted the command, UNIX milliseconds; -1 if not known.
    public var admittedAtMilliseconds: Int64 = -1

    public init(
        command: AudienceCommandReference,
        memberCounts: MemberOutcomeCounts,
        times: ResponseTimes,
        timestamp: Int64,
        rangeCount: Int
    ) {
        self.command = command
        self.memberCounts = memberCounts
        self.times = times
        self.timestamp = timestamp
        self.rangeCount = rangeCount
    }

    /// Appends the record. Absent fields are left out.
    public func write(to writer: inout JSONWriter) {
        command.writeFirstFields(to: &writer)
        writer.writeFanoutOutcome(memberCounts, isSuperseded: isSuperseded)
        if broadcastCounts.total > 0 { writer.writeOutcomes("broadcasts", broadcastCounts) }
        if let channelAbsence {
            writer.key("channel")
            writer.string("none")
            writer.key("channelReason")
            writer.string(channelAbsence.name)
        }
        writer.member("ranges", Int64(rangeCount))
        if wasAlertRemovedByAge {
            writer.key("reason")
            writer.string("alertExpired")
        }
        if isDemoted {
            writer.key("demoted")
            writer.boolean(true)
        }
        writer.writeDroppedFields(droppedFieldNames)
        writer.member("timestamp", timestamp)
        command.writeLastFields(
            times,
            recordTimestampMilliseconds: recordTimestampMilliseconds,
            admittedAtMilliseconds: admittedAtMilliseconds,
            to: &writer
        )
    }
}

/// The record for the results topic that says what became of a command's broadcast to one channel.
public struct BroadcastResultRecord {
    public var command: AudienceCommandReference
    public var channel: AudienceChannel
    public var outcome: MemberOutcome
    /// The HTTP status of APNs' last response; 0 without a response.
    public var status: UInt16 = 0
    /// The reason in APNs' last response; empty if the response has none, or if the broadcast has not failed.
    public var reason: UnsafeRawBufferPointer
    /// What an operator can do about the reason; empty if there is no advice.
    public var advice: StaticString = ""
    /// The names of the dropped fields, as in ``ResultRecord/droppedFieldNames``.
    public var droppedFieldNames = UnsafeRawBufferPointer(start: nil, count: 0)
    public var times: ResponseTimes

    public init(
        command: AudienceCommandReference,
        channel: AudienceChannel,
        outcome: MemberOutcome,
        reason: UnsafeRawBufferPointer,
        times: ResponseTimes
    ) {
        self.command = command
        self.channel = channel
        self.outcome = outcome
        self.reason = reason
        self.times = times
    }

    /// Appends the record. Absent fields are left out.
    public func write(to writer: inout JSONWriter) {
        command.writeFirstFields(to: &writer)
        channel.identifier.withBytes { writer.member("channel", $0) }
        writer.key("environment")
        writer.string(channel.environment.name)
        writer.key("outcome")
        writer.string(outcome.name)
        if status != 0 { writer.member("status", Int64(status)) }
        if !reason.isEmpty { writer.member("reason", reason) }
        if advice.utf8CodeUnitCount > 0 {
            writer.key("advice")
            writer.string(advice)
        }
        writer.writeDroppedFields(droppedFieldNames)
        command.writeLastFields(times, to: &writer)
    }
}

/// The parts of a result that name its command: the command's id, app, audience and source.
public struct AudienceCommandReference {
    /// The command's `id`. If it is absent, the result names the command by its place, `topic/partition/offset`.
    public var identifier: UnsafeRawBufferPointer?
    public var app: UnsafeRawBufferPointer
    /// The audience's id; nil for a command that names a channel instead.
    public var audience: UnsafeRawBufferPointer?
    /// The place from which the command was read: topic, partition and offset.
    public var sourceTopic: UnsafeRawBufferPointer
    public var sourcePartition: Int32
    public var sourceOffset: Int64

    public init(
        identifier: UnsafeRawBufferPointer?,
        app: UnsafeRawBufferPointer,
        audience: UnsafeRawBufferPointer?,
        sourceTopic: UnsafeRawBufferPointer,
        sourcePartition: Int32,
        sourceOffset: Int64
    ) {
        self.identifier = identifier
        self.app = app
        self.audience = audience
        self.sourceTopic = sourceTopic
        self.sourcePartition = sourcePartition
        self.sourceOffset = sourceOffset
    }

    /// Writes the first fields of a result, which name its command.
    fileprivate func writeFirstFields(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.writeCommandName(identifier, topic: sourceTopic, partition: sourcePartition, offset: sourceOffset)
        writer.member("app", app)
        writer.member("audience", audience)
    }

    /// Writes the last fields of a result: the place of the command's record, and the times. Leaves out times of -1,
    /// which are not known.
    fileprivate func writeLastFields(
        _ times: ResponseTimes,
        recordTimestampMilliseconds: Int64 = -1,
        admittedAtMilliseconds: Int64 = -1,
        to writer: inout JSONWriter
    ) {
        writer.writeSource(topic: sourceTopic, partition: sourcePartition, offset: sourceOffset)
        writer.key("times")
        writer.beginObject()
        if recordTimestampMilliseconds >= 0 { writer.member("record", recordTimestampMilliseconds) }
        if admittedAtMilliseconds >= 0 { writer.member("admitted", admittedAtMilliseconds) }
        if times.firstResponseAtMilliseconds >= 0 { writer.member("first", times.firstResponseAtMilliseconds) }
        if times.lastResponseAtMilliseconds >= 0 { writer.member("last", times.lastResponseAtMilliseconds) }
        writer.endObject()
        writer.endObject()
    }
}

extension MemberOutcomeCounts {
    /// The outcome of a command whose members have these counts: the first of `superseded`, `expired` and `started`
    /// that at least one member has; otherwise `reachedAllMembers`.
    public var outcome: FanoutOutcome {
        if self[.superseded] > 0 { return .superseded }
        if self[.expired] > 0 { return .expired }
        return self[.started] > 0 ? .started : .reachedAllMembers
    }
}

/// The outcome of a command to an audience, in one range or over all its ranges.
public enum FanoutOutcome: UInt8, CaseIterable, Sendable, BitwiseCopyable {
    /// Every member's outcome is `delivered`, `failed` or `unregistered`, or the audience has no members. The counts
    /// say how many members had each outcome. In records the name is `delivered`, even if every member failed.
    case reachedAllMembers
    /// A newer version replaced this version before this version had reached all members.
    case superseded
    /// The command expired before it had reached all members.
    case expired
    /// The command is a start, and a separate start was written for at least one device of the audience. Each separate
    /// start has its own result.
    case started

    /// The name in result records.
    public var name: StaticString {
        switch self {
        case .reachedAllMembers: "delivered"
        case .superseded: "superseded"
        case .expired: "expired"
        case .started: "started"
        }
    }
}

extension JSONWriter {
    fileprivate mutating func writeFanoutOutcome(_ memberCounts: MemberOutcomeCounts, isSuperseded: Bool) {
        key("outcome")
        string(isSuperseded ? FanoutOutcome.superseded.name : memberCounts.outcome.name)
        writeOutcomes("members", memberCounts)
    }

    fileprivate mutating func writeOutcomes(_ name: StaticString, _ counts: MemberOutcomeCounts) {
        key(name)
        beginObject()
        for outcome in MemberOutcome.allCases where counts[outcome] > 0 {
            member(outcome.name, Int64(counts[outcome]))
        }
        endObject()
    }
}
