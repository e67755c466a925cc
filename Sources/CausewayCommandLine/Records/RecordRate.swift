/// How fast records may leave, counted from the first: no burst makes up for more than what the time since then has earned.
package struct RecordRate {
    /// Records a second; nil: as fast as can be.
    private let perSecond: Double?

    package init(perSecond: Double?) { self.perSecond = perSecond }

    /// - Parameters:
    ///   - sent: how many have left.
    ///   - elapsedSeconds: since the first might have.
    package func allows(another sent: Int, elapsedSeconds: Double) -> Bool {
        guard let perSecond else { return true }
        return Double(sent) <= elapsedSeconds * perSecond
    }
}
