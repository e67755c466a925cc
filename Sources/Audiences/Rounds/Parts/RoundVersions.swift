import Delivery
import LiveActivity

/// The versions of a round: those under way, and what the round knows about older and newer ones.
struct RoundVersions: BitwiseCopyable {
    // The ends of the round's list of versions; `.null`: the list is empty. The versions under way come first, oldest
    // first. Records in the stage `received` follow, in the order of arrival.
    var oldest = RangeVersionIndex.null
    var newest = RangeVersionIndex.null
    /// The number of versions whose record came after the record of a newer version, and that are not freed yet. The
    /// round is kept for them, although they are not in its list of versions.
    var lateCount: UInt16 = 0
    /// The newest version that was settled in this round, here or by an earlier owner; with the timestamp 0: none.
    var newestSettled = Version(timestamp: 0, sequence: 0)
    /// The newest version that the store has admitted; with the timestamp 0: none is known.
    var newestAdmitted = Version(timestamp: 0, sequence: 0)
    /// Since when the record of `newestAdmitted` is missing (monotonic milliseconds); nil: it is not missing.
    @CompactOptional var newestAdmittedMissingSinceMilliseconds: Int64?
    /// The offset of the first record for this round that was passed over and waits to be read again; `.max`: there is
    /// none. Only records of the round's own partition count.
    ///
    /// While there is such an offset, the round does not wait for the record of `newestAdmitted`. That record may be
    /// passed over too. If so, it gets room only when the round's older versions have ended.
    var firstPassedOverOffset: Int64 = .max
    /// Whether the round was in the phase `claiming` when a record for it, of any partition, was last passed over. If
    /// so, the round does not wait for the records of the last owner's versions after the reply to its claim. The
    /// passed-over record may be one of them, and may get room only when the round's other records have settled.
    var wasClaimingAtLastPassOver = false
}
