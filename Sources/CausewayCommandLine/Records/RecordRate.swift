import Glibc

/// When records leave: so many a second and no more, spread evenly.
package struct RecordRate {
    /// The longest sleep, since a signal or a report is looked for only between two of them.
    private static let sleepMillisecondsMax: Int64 = 50

    /// Records a second; nil: as fast as can be.
    private let perSecond: Double?

    package init(perSecond: Double?) { self.perSecond = perSecond }

    /// How long it is until another record may leave; 0: it may now.
    ///
    /// - Parameters:
    ///   - sent: how many have left.
    ///   - elapsedSeconds: since the first might have.
    package func secondsUntil(another sent: Int, elapsedSeconds: Double) -> Double {
        guard let perSecond else { return 0 }
        return max(0, Double(sent) / perSecond - elapsedSeconds)
    }

    /// Sleeps until then, or for ``sleepMillisecondsMax`` where that is sooner.
    package func sleep(seconds: Double) {
        let milliseconds = min(seconds * 1_000, Double(Self.sleepMillisecondsMax))
        var time = timespec(tv_sec: 0, tv_nsec: Int(milliseconds * 1_000_000))
        nanosleep(&time, nil)
    }
}
