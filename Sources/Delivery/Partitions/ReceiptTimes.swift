/// The approximate receipt times of one partition's records, to say how long the oldest unsettled record has
/// been waiting. The receipt time counts, not the record's own time: a registration may be months old when it
/// is read.
///
/// Only some records have a mark, which is an offset with its receipt time. A mark counts for all records up
/// to the next mark. When there is no room for a mark, every second mark is dropped and the distance between
/// marks is doubled. So the error stays within a few hundredths of the age.
package struct ReceiptTimes: ~Copyable {
    static var marksMax: Int { 128 }
    static var leastDistanceMilliseconds: Int64 { 250 }

    private struct Mark: BitwiseCopyable {
        var offset: Int64
        var milliseconds: Int64
    }

    private let marks = UnsafeMutablePointer<Mark>.allocate(capacity: ReceiptTimes.marksMax)
    private var count = 0
    private var distanceMilliseconds = ReceiptTimes.leastDistanceMilliseconds
    private var nextMarkMilliseconds = Int64.min

    package init() {}

    deinit { marks.deallocate() }

    /// Sets a mark for a received record, if the last mark is old enough.
    /// - Parameters:
    ///   - committableOffset: when there is no room, marks below this offset may be dropped.
    ///   - isAlone: whether all earlier records are settled, so that earlier marks are not needed.
    package mutating func note(_ offset: Int64, milliseconds: Int64, committableOffset: Int64, isAlone: Bool) {
        if isAlone {
            count = 0
            distanceMilliseconds = Self.leastDistanceMilliseconds
            nextMarkMilliseconds = .min
        }
        guard milliseconds >= nextMarkMilliseconds else { return }
        if count == Self.marksMax { makeRoom(committableOffset: committableOffset) }
        (marks + count).initialize(to: Mark(offset: offset, milliseconds: milliseconds))
        count += 1
        nextMarkMilliseconds = milliseconds + distanceMilliseconds
    }

    /// Returns when the record at `offset` was received; nil if `note` has not been called for it. The time
    /// may be too early, at most by the distance between two marks.
    package func milliseconds(of offset: Int64) -> Int64? {
        var below = 0
        var above = count
        while below < above {
            let middle = (below + above) / 2
            if marks[middle].offset <= offset { below = middle + 1 } else { above = middle }
        }
        return below > 0 ? marks[below - 1].milliseconds : nil
    }

    private mutating func makeRoom(committableOffset: Int64) {
        var first = 0
        while first + 1 < count, marks[first + 1].offset <= committableOffset { first += 1 }
        if first >= Self.marksMax / 2 {
            for position in first..<count { marks[position - first] = marks[position] }
            count -= first
            distanceMilliseconds = Self.leastDistanceMilliseconds
        } else {
            for position in 0..<count / 2 { marks[position] = marks[position * 2] }
            count /= 2
            distanceMilliseconds *= 2
        }
    }
}
