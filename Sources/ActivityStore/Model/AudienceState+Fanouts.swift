import LiveActivity

/// The fan-outs of an audience's last versions, oldest first. The script `audience` keeps and removes the same ones.
extension [AudienceState.Fanout] {
    /// Adds the fan-out of a version that is admitted now, or whose fan-out Redis has lost. If too many are then
    /// stored, removes the oldest ones: under way, as many as make room for one fan-out; of the others, at most two.
    mutating func add(_ fanout: AudienceState.Fanout) {
        append(fanout)
        guard count > AudienceHashLimits.otherFanoutsMax else { return }
        let nowMilliseconds = fanout.admittedAtMilliseconds
        let otherCount = self.count(where: { !$0.isUnderWay(nowMilliseconds: nowMilliseconds) })
        var excessOtherCount = Swift.min(otherCount - AudienceHashLimits.otherFanoutsMax, 2)
        var excessRangeCount = Swift.min(
            countRangesUnderWay(nowMilliseconds: nowMilliseconds) - AudienceHashLimits.rangesUnderWayMax,
            MemberLocation.segmentCount
        )
        self = filter { fanout in
            if fanout.isUnderWay(nowMilliseconds: nowMilliseconds) {
                guard excessRangeCount > 0 else { return true }
                excessRangeCount -= fanout.countedRangeCount
            } else {
                guard excessOtherCount > 0 else { return true }
                excessOtherCount -= 1
            }
            return false
        }
    }

    /// Returns the sum of ``AudienceState/Fanout/countedRangeCount`` over the fan-outs that are under way.
    func countRangesUnderWay(nowMilliseconds: Int64) -> Int {
        reduce(0) { $0 + ($1.isUnderWay(nowMilliseconds: nowMilliseconds) ? $1.countedRangeCount : 0) }
    }
}

extension AudienceState.Fanout {
    /// The number of ranges that the fan-out counts as while it is under way.
    var countedRangeCount: Int { max(Int(rangeCount), AudienceHashLimits.countedRangesMin) }

    /// Whether parts of the fan-out are unfinished, and its version was admitted in the last 12 hours.
    func isUnderWay(nowMilliseconds: Int64) -> Bool {
        totals == nil && nowMilliseconds - admittedAtMilliseconds < AudienceHashLimits.rangeCountKeptMillisecondsMax
    }

    mutating func computeTotals() {
        var counts = MemberOutcomeCounts()
        var times = ResponseTimes()
        for (rangeCounts, rangeTimes) in finishedRanges.values {
            counts.add(rangeCounts)
            times.merge(rangeTimes)
        }
        for (outcome, broadcastTimes) in finishedBroadcasts.values {
            broadcastCounts[outcome] += 1
            times.merge(broadcastTimes)
        }
        totals = (counts, times)
        finishedRanges = [:]
        finishedBroadcasts = [:]
    }
}
