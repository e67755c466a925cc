/// The approximate times at which one partition's records were received, to say how long the oldest unsettled record
/// has waited. (The record's own time would not say this: a registration may be months old when it is read.)
///
/// Only some records have a sample: an offset with its receipt time. A sample counts for all records up to the next
/// sample. So a time is wrong by at most 250 ms, or by a few percent of the age if that is more.
///
/// When there is no room for another sample, the samples of settled records are removed if they are at least half of
/// all. Otherwise every second sample is removed, and the interval between samples is doubled.
package struct ReceiptTimes: ~Copyable {
    static var samplesMax: Int { 128 }
    static var sampleIntervalMillisecondsMin: Int64 { 250 }

    private struct Sample: BitwiseCopyable {
        var offset: Int64
        var receivedAtMonotonicMilliseconds: Int64
    }

    private let samples = UnsafeMutablePointer<Sample>.allocate(capacity: ReceiptTimes.samplesMax)
    private var sampleCount = 0
    private var sampleIntervalMilliseconds = ReceiptTimes.sampleIntervalMillisecondsMin
    private var nextSampleDueMilliseconds = Int64.min

    package init() {}

    deinit { samples.deallocate() }

    /// Adds a sample for a received record, if the last sample is old enough.
    ///
    /// - Parameters:
    ///   - committableOffset: all records below this offset are settled, so their samples may be removed to make room.
    ///   - areEarlierRecordsSettled: whether all earlier records are settled. If so, all earlier samples are removed.
    package mutating func noteReceipt(
        _ offset: Int64,
        atMilliseconds receivedAtMonotonicMilliseconds: Int64,
        committableOffset: Int64,
        areEarlierRecordsSettled: Bool
    ) {
        if areEarlierRecordsSettled {
            sampleCount = 0
            sampleIntervalMilliseconds = Self.sampleIntervalMillisecondsMin
            nextSampleDueMilliseconds = .min
        }
        guard receivedAtMonotonicMilliseconds >= nextSampleDueMilliseconds else { return }
        if sampleCount == Self.samplesMax { makeRoomForSample(committableOffset: committableOffset) }
        (samples + sampleCount)
            .initialize(to: Sample(offset: offset, receivedAtMonotonicMilliseconds: receivedAtMonotonicMilliseconds))
        sampleCount += 1
        nextSampleDueMilliseconds = receivedAtMonotonicMilliseconds + sampleIntervalMilliseconds
    }

    /// Returns when an unsettled record was received, a monotonic time; nil if no sample is at its offset or below. The
    /// time may be too early, at most by the time between two samples.
    package func receivedAtMonotonicMilliseconds(of offset: Int64) -> Int64? {
        var low = 0
        var high = sampleCount
        while low < high {
            let middle = (low + high) / 2
            if samples[middle].offset <= offset { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? samples[low - 1].receivedAtMonotonicMilliseconds : nil
    }

    /// Makes room for a sample: removes the samples that only settled records need, if these are at least half of all.
    /// Otherwise removes every second sample.
    private mutating func makeRoomForSample(committableOffset: Int64) {
        var firstKept = 0
        while firstKept + 1 < sampleCount, samples[firstKept + 1].offset <= committableOffset { firstKept += 1 }
        if firstKept >= Self.samplesMax / 2 {
            for position in firstKept..<sampleCount { samples[position - firstKept] = samples[position] }
            sampleCount -= firstKept
            sampleIntervalMilliseconds = Self.sampleIntervalMillisecondsMin
        } else {
            for position in 0..<sampleCount / 2 { samples[position] = samples[position * 2] }
            sampleCount /= 2
            sampleIntervalMilliseconds *= 2
        }
    }
}
