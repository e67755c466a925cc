import Delivery
import LiveActivity

/// The versions of a round: those under way, and what the round knows about older and newer ones.
struct RoundVersions: BitwiseCopyable {
    // The ends of the list of the round's versions, oldest first; `.null`: the list is empty. Records that are only
    // received follow in the order of arrival.
    var oldest = VersionIndex.null
    var newest = VersionIndex.null
    /// The number of versions whose record came after the record of a newer version, and that are not freed yet. The
    /// round is kept for them, although they are not in its list of versions.
    var lateCount: UInt16 = 0
    /// The newest version that was settled in this round, here or by an earlier owner; with the timestamp 0: none.
    var newestSettled = Version(timestamp: 0, sequence: 0)
    /// The newest version that the store has admitted; with the timestamp 0: none is known.
    var newestAdmitted = Version(timestamp: 0, sequence: 0)
    /// Since when the record of `newestAdmitted` is missing (monotonic milliseconds); `.max`: it is not missing.
    var newestAdmittedMissingSinceMilliseconds: Int64 = .max
    /// The offset of the round's first record of its own partition that was passed over and is not being read again;
    /// `.max`: there is none. The round does not wait for this record, because only the end of older versions makes
    /// room for it.
    var passedOverOffset: Int64 = .max
    /// Whether a record, of any partition, was passed over while the round was being claimed. If so, the round does not
    /// wait for versions of the last owner.
    var hasPassedOverDuringClaim = false
}
