import Synchronization

/// Notes that a Redis Cluster may have lost hashes of audiences, and with them the channels that admission reads there.
/// ``StoreWatch`` notes the loss, and ``ChannelKeeper`` takes the note.
///
/// An audience's hash may be on another primary than its app's registry of channels. If only the hash is lost, the
/// registry stays complete, so no restoration writes the channel again. But the primary then also lacks marks of
/// registrations, which `StoreWatch` notices.
final class PossibleHashLoss: Sendable {
    private let areMembersMissing = Atomic<Bool>(false)
    private let isNoted = Atomic<Bool>(false)

    /// Notes a possible loss of hashes when members of audiences begin to be missing, and again when they are no longer
    /// missing: meanwhile a primary may have lost its data once more.
    func noteMembers(areMissing: Bool) {
        guard areMembersMissing.exchange(areMissing, ordering: .relaxed) != areMissing else { return }
        isNoted.store(true, ordering: .releasing)
    }

    /// Returns whether hashes may have been lost since the last call, and removes the note about it.
    func takeNote() -> Bool { isNoted.exchange(false, ordering: .acquiringAndReleasing) }
}
