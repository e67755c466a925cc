import ActivityStore
import LiveActivity

@testable import Audiences
@testable import Delivery

/// The records and checkpoints of a worker that has died.
extension RoundHarness {
    /// The checkpoint that another worker would have recorded for the only range.
    func record(_ checkpoint: [UInt8]) {
        guard let range = SegmentRange(index: 0, count: 1) else { return }
        store.nowMilliseconds = now
        _ = store.perform(call(.claim(range, claim: 1)))
        _ = store.perform(call(.checkpoint(range, claim: 1, text: checkpoint)))
    }

    /// Gives the partition back. Returns whether the core holds nothing of it.
    func revoke() -> Bool {
        core.beginRevoking(place, now: moment)
        settle()
        return core.isDrained(place)
    }
}
