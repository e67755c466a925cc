/// The last moments, at most `momentsMax`, at which responses may have been lost, because a connection ended or became
/// half open.
struct LostResponseMoments {
    /// The response to a push may be lost if a connection ended or became half open at most this long after the push's
    /// alert rang. Any connection counts, because it is not known which one the push came on.
    ///
    /// Usually the response is sent when the alert rings. If ``Faults`` delay responses by about a second or more, the
    /// counts of repeated alerts are not reliable.
    static let lossAfterAlertMillisecondsMax: Int64 = 2_000
    private static let momentsMax = 32

    private var lossesAtMilliseconds: [Int64] = []

    mutating func append(_ atMilliseconds: Int64) {
        if let lastAtMilliseconds = lossesAtMilliseconds.last, lastAtMilliseconds == atMilliseconds { return }
        if lossesAtMilliseconds.count == Self.momentsMax { lossesAtMilliseconds.removeFirst() }
        lossesAtMilliseconds.append(atMilliseconds)
    }

    /// Whether the response to a push may have been lost. `rangAtMilliseconds` is the time at which the push's alert
    /// rang.
    func mayHaveLostResponse(rangAtMilliseconds: Int64) -> Bool {
        lossesAtMilliseconds.contains {
            $0 - Self.lossAfterAlertMillisecondsMax <= rangAtMilliseconds && rangAtMilliseconds <= $0
        }
    }
}
