import Delivery
import LiveActivity

/// The versions of a round (``RangeVersionSlot``): those under way, and what the round knows about older and newer
/// versions.
struct RoundVersions: BitwiseCopyable {
    /// The round's list of versions.
    ///
    /// The list begins with the versions that have begun (all phases except `received`), oldest first. Then come the
    /// versions in the phase `received`, in the order in which their records arrived. There are such versions only
    /// before the store has granted the round's claim: in the phases `claiming` and `awaitingClaim`, and if the round
    /// was drained or abandoned in these phases.
    var list = LinkedList<RangeVersionSlot>()
    /// The first version in the list; `.null`: the list is empty.
    var first: RangeVersionIndex { list.first }
    /// The last version in the list; `.null`: the list is empty. If no version is in the phase `received`, this is the
    /// newest one. Otherwise a version nearer to the front of the list may be newer.
    var last: RangeVersionIndex { list.last }
    /// The number of late versions (``RangeVersionSlot/isLate``) that are not settled yet. They are not in the list of
    /// versions, but keep the round from being freed.
    var lateVersionCount: UInt16 = 0
    /// The newest version that this worker or a previous owner has settled in this round; its timestamp is 0 if there
    /// is none.
    var newestSettled = Version.zero
    /// The newest version that the store has admitted; its timestamp is 0 if none is known.
    var newestAdmitted = Version.zero
    /// Since when the round misses the record of `newestAdmitted` (monotonic milliseconds). Nil: the round does not
    /// miss it, or has stopped waiting for it.
    @CompactOptional var newestAdmittedMissingSinceMilliseconds: Int64?
    /// The offset of the round's first record that was passed over and waits to be read again (R30); nil: there is
    /// none. Only records of the round's own partition count.
    ///
    /// While an offset is set, the round does not wait for the record of `newestAdmitted`, as
    /// ``Audiences/awaitsNewerVersion(_:)`` explains.
    @CompactOptional var firstPassedOverOffset: Int64?
    /// Whether the round was in the phase `claiming` when a record for it, from any partition, was last passed over
    /// (R30). The round then does not wait for the versions of the partition's previous owner (`awaitingVersions`): the
    /// passed-over record may be of such a version, and may get room only when the round's other records have settled.
    var wasClaimingAtLastPassOver = false

    /// Forgets the newest settled and the newest admitted version. The reply to the next claim brings the newest
    /// admitted one again, and the checkpoint from which the round continues brings the newest settled one.
    mutating func forgetNewestVersions() {
        newestSettled = .zero
        newestAdmitted = .zero
        newestAdmittedMissingSinceMilliseconds = nil
    }
}
