import ActivityStore
import LiveActivity

@testable import Audiences
@testable import Delivery

/// A checkpoint that a dead worker has left, and the revocation of a living worker's partition.
extension RoundHarness {
    /// Stores a checkpoint of an audience's only range, as another worker would have written it.
    func storeCheckpoint(_ checkpoint: [UInt8], of audience: String = "match-1") {
        guard let range = SegmentRange(index: 0, rangeCount: 1) else { return }
        let digest = Self.digest(of: audience)
        store.nowMilliseconds = nowMilliseconds
        _ = store.perform(makeCall(.claim(range, claim: 1), about: digest))
        _ = store.perform(makeCall(.checkpoint(range, claim: 1, text: checkpoint), about: digest))
    }

    /// Begins to revoke the partition, and lets the core do its work. Returns whether the partition is drained.
    func beginRevoking() -> Bool {
        core.beginRevoking(partitionIndex, now: moment)
        performPendingWork()
        return core.isDrained(partitionIndex)
    }
}
