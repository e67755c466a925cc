/// When the records of one partition were received, kept coarsely: enough to say how long the oldest unsettled one has been waiting,
/// without a time for each.
///
/// A mark is set for the first record that comes a while after the last mark, and stands for all records up to the next one. When there
/// is no room, every other mark is dropped and the distance is doubled, so the error stays within some hundredth of the age.
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

    /// - Parameters:
    ///   - committableOffset: what lies below it is forgotten when room is needed.
    ///   - isAlone: everything before it is settled, so the earlier marks are not needed any more.
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

    /// When the record at `offset`, one of those noted, was received; too early by the distance of two marks at most.
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
