import ActivityStore
import LiveActivity

@testable import Audiences
@testable import Delivery

/// A checkpoint that a dead worker leaves behind, and a partition that a living worker gives up.
extension RoundHarness {
    /// Stores a checkpoint of the only range, as another worker would have written it.
    func storeCheckpoint(_ checkpoint: [UInt8]) {
        guard let range = SegmentRange(index: 0, rangeCount: 1) else { return }
        store.nowMilliseconds = nowMilliseconds
        _ = store.perform(call(.claim(range, claim: 1)))
        _ = store.perform(call(.checkpoint(range, claim: 1, text: checkpoint)))
    }

    /// Begins to revoke the partition. Returns whether it is drained.
    func revoke() -> Bool {
        core.beginRevoking(partitionIndex, now: moment)
        performPendingWork()
        return core.isDrained(partitionIndex)
    }
}
