import Delivery
import LiveActivity

/// A record of the fan-out topic that was decoded. Its pointers are valid only while
/// ``Audiences/receiveFanoutRecord(_:instruction:droppedFields:now:)`` runs.
struct IncomingFanoutRecord {
    let record: IncomingRecord
    /// The bytes of the record's value, to which the byte ranges in `command` refer.
    let value: UnsafeRawBufferPointer
    let command: Command
    /// The contents of the record's headers.
    let instruction: FanoutInstruction
    /// The names of the fields that were dropped because the body was too large, separated by commas.
    let droppedFields: UnsafeRawBufferPointer
    let appIndex: UInt16
}

/// A record of the fan-out topic. It brings a command to the members of one range of an audience (``SegmentRange``), to
/// a channel of the audience, or to a channel that the command itself names.
struct FanoutRecord: BitwiseCopyable {
    /// The index of the record's partition in the core's table of partitions.
    var partitionIndex: UInt32
    var assignmentEpoch: UInt32
    var offset: Int64
    var receivedAtWallMilliseconds: Int64
    var instruction: FanoutInstruction
    var version: Version
    var event: Event
    var policyIndex: UInt8
    /// The command's own expiration, UNIX seconds; -1: it has none.
    var ownExpirationSeconds: Int64
    /// `aps.stale-date`, UNIX seconds; -1: there is none.
    var staleDateSeconds: Int64
    /// The version of the command that brought the alert: the record's own command, or an older one whose alert the
    /// record carries.
    var alertVersion: Version
    /// The greatest age at which the alert may ring, in seconds: `expiration.alertSeconds` of the policy of the record
    /// that brought the alert.
    var alertAgeSecondsMax: Int64
    var commandIdentifier: HeapBytes
    var trace: HeapBytes
    /// The names of the fields that were dropped because the body was too large.
    var droppedFields: HeapBytes
    /// The body, with the alert that the record brought. The body of a broadcast may change later: it may get the alert
    /// of an older broadcast, and it loses an alert that is too old.
    var body: HeapBytes
    var bodyLayout: PushBody.Layout

    var hasAlert: Bool { !bodyLayout.alert.isAbsent }
    var occupiedBytes: Int { body.count + commandIdentifier.count + trace.count + droppedFields.count }

    func isAlertTooOld(now: Moment) -> Bool {
        AgeRules.isAlertTooOld(
            timestamp: alertVersion.timestamp,
            alertAgeSecondsMax: alertAgeSecondsMax,
            nowSeconds: now.wallSeconds
        )
    }

    /// Copies the partition and offset of another record with the same version, because this record's own partition has
    /// been released. The copied offset settles when this record's version or broadcast ends. If the version or
    /// broadcast is dropped instead, the record at that offset is read again.
    mutating func copyPartitionAndOffset(of duplicate: FanoutRecord) {
        partitionIndex = duplicate.partitionIndex
        assignmentEpoch = duplicate.assignmentEpoch
        offset = duplicate.offset
    }

    func freeBytes() {
        commandIdentifier.free()
        trace.free()
        droppedFields.free()
        body.free()
    }
}

extension Audiences {
    /// Whether the record's partition was released after the record was read. Usually the record is then dropped. But
    /// after partitions were added to the fan-out topic, a round or channel of another partition may have the record,
    /// which then stays in memory.
    func isPartitionReleased(of record: FanoutRecord) -> Bool {
        partitions.partition(record.partitionIndex, assignmentEpoch: record.assignmentEpoch) == nil
    }

    func sentExpirationSeconds(of record: FanoutRecord, from seconds: Int64) -> Int64 {
        sentExpirationSeconds(
            event: record.event,
            ownExpirationSeconds: record.ownExpirationSeconds,
            staleDateSeconds: record.staleDateSeconds,
            policy: record.policyIndex,
            from: seconds
        )
    }

    /// Returns when a record expires (UNIX seconds): the core sends nothing of the record after this time. (R18) The
    /// policy's times and the stale date do not count here, because they only limit how long APNs stores a push
    /// (``sentExpirationSeconds(of:from:)``).
    func expiresAtSeconds(of record: FanoutRecord) -> Int64 {
        AgeRules.stateExpirationSeconds(
            timestamp: record.version.timestamp,
            isEnd: record.event == .end,
            ownExpirationSeconds: record.ownExpirationSeconds
        )
    }
}

/// The counts of a command over all its ranges and broadcasts. The store returns them in its reply to the call that
/// adds the last range or broadcast.
struct AudienceTotals: BitwiseCopyable {
    var memberCounts = MemberOutcomeCounts()
    var times = ResponseTimes()
    var broadcastCounts = MemberOutcomeCounts()
}

extension AudienceTotals {
    /// Reads the totals in a reply; nil if other ranges or broadcasts of the command are not finished yet.
    init?(_ reply: Audiences.Reply) {
        guard let memberCounts = reply.totals else { return nil }
        self.init(memberCounts: memberCounts, times: reply.responseTimes, broadcastCounts: reply.broadcastCounts)
    }
}
