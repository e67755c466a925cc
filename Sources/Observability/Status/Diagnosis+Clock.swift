import Delivery
import Numbers

extension Diagnosis {
    var clockFindings: [Finding] {
        let differenceMilliseconds = condition.clockDifferenceMilliseconds
        guard abs(differenceMilliseconds) > ClockCorrection.warningMilliseconds else { return [] }
        let (isCorrected, isRedisClockSetBack) = (condition.isClockCorrected, condition.isRedisClockSetBack)
        let meaning =
            if isRedisClockSetBack {
                "Redis' clock was set back, so the worker does not use its time. Workers that start now use it."
            } else if isCorrected {
                "The worker uses Redis' time. If Redis' clock is the wrong one, all workers have a wrong time."
            } else {
                """
                The difference is too large for a correction. If this machine's clock is the wrong one, the worker \
                refuses commands or takes them for too old.
                """
            }
        return [
            Finding(
                severity: isCorrected || isRedisClockSetBack ? .attention : .broken,
                alertName: "CausewayClockWrong",
                observation:
                    """
                    This machine's clock is \(Numeral.duration(microseconds: abs(differenceMilliseconds) * 1_000)) \
                    \(differenceMilliseconds > 0 ? "behind" : "ahead of") Redis' clock.
                    """,
                meaning: meaning,
                action: "Synchronize the clock that is wrong with NTP. If all workers report this, it is Redis' clock.",
                logKinds: [.clockWrong]
            )
        ]
    }
}
