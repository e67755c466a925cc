import CausewayCommandLine
import CausewayConfiguration
import Foundation
import Kafka

import enum CausewayRecords.JSONValue

/// The newest results of one activity, found by a search from the end of the results topic. The search reads only the
/// partition that the producer's `partitioner` chooses for the activity. If the partitioner is unknown or chooses at
/// random, the search reads all partitions.
///
/// A partition is read backwards in windows, until enough results are found: the last 2,000 offsets, then the 10,000
/// before them, and so on. So the search is short for an activity with a recent push. ``searchedRecordsMax`` limits the
/// search in each partition, ``searchMillisecondsMax`` the time for all partitions.
struct NewestResultsSearch {
    static let searchedRecordsMax: Int64 = 200_000
    static let searchMillisecondsMax: Int64 = 5_000
    private static let firstWindowOffsetCount: Int64 = 2_000
    /// Each window is this many times as large as the one read before it: 2,000 offsets, then 10,000, then 50,000.
    private static let windowGrowthFactor: Int64 = 5
    private static let requestTimeoutMilliseconds: Int32 = 3_000

    /// The values of the result records, newest first.
    private(set) var records: [JSONValue] = []
    /// How many offsets were searched. Their records may be of any activity.
    private(set) var searchedOffsetCount: Int64 = 0
    /// Whether the search has reached the beginning of each partition that may have results of the activity.
    private(set) var isComplete = false

    /// - Parameters:
    ///   - resultsMax: the maximum number of results to find.
    ///   - searchMillisecondsMax: how long the reading may take, after a broker has responded.
    init(
        of activity: String,
        app: String,
        resultsMax: Int,
        kafka: WorkerConfiguration.Kafka,
        searchMillisecondsMax: Int64 = NewestResultsSearch.searchMillisecondsMax
    ) throws(KafkaError) {
        let reader = try PartitionReader.open(
            topic: kafka.topics.results,
            for: "causeway inspect",
            properties: kafka.consumerProperties,
            timeoutMilliseconds: Self.requestTimeoutMilliseconds
        )
        defer { _ = reader.close(timeoutMilliseconds: 1_000) }
        let key = Array(activity.utf8)
        let partitions = try reader.fetchPartitionCount(timeoutMilliseconds: Self.requestTimeoutMilliseconds)
        let partitioner = try kafka.producerProperties.last { $0.name == "partitioner" }?.value
        let keyPartition = reader.partition(of: key, among: partitions, partitioner: partitioner)
        let deadline = ContinuousClock.now + .milliseconds(searchMillisecondsMax)
        var foundResults: [(timestamp: Int64, record: JSONValue)] = []
        isComplete = true
        for partition in keyPartition.map({ $0..<$0 + 1 }) ?? 0..<partitions {
            guard Self.remainingMilliseconds(until: deadline) > 0 else {
                isComplete = false
                break
            }
            foundResults += try search(reader, partition, resultsMax: resultsMax, until: deadline) { message in
                guard message.key?.elementsEqual(key) == true, let value = message.value,
                    let record = JSONValue(parsing: value), record["app"]?.text == app
                else { return nil }
                return record
            }
        }
        records = foundResults.enumerated()
            .sorted { ($1.element.timestamp, $0.offset) < ($0.element.timestamp, $1.offset) }
            .prefix(resultsMax).map(\.element.record)
    }

    /// Returns the newest results in one partition, newest first.
    private mutating func search(
        _ reader: PartitionReader,
        _ partition: Int32,
        resultsMax: Int,
        until deadline: ContinuousClock.Instant,
        _ match: (borrowing Message) -> JSONValue?
    ) throws(KafkaError) -> [(timestamp: Int64, record: JSONValue)] {
        let watermarks = try reader.fetchWatermarks(of: partition, timeoutMilliseconds: Self.requestTimeoutMilliseconds)
        let begin = max(watermarks.logStartOffset, watermarks.logEndOffset - Self.searchedRecordsMax, 0)
        var end = max(begin, watermarks.logEndOffset)
        var windowOffsetCount = Self.firstWindowOffsetCount
        var foundResults: [(timestamp: Int64, record: JSONValue)] = []
        while end > begin, foundResults.count < resultsMax {
            let windowFirstOffset = max(begin, end - windowOffsetCount)
            var windowResults: [(timestamp: Int64, record: JSONValue)] = []
            let isWindowComplete = try reader.read(
                partition,
                offsets: windowFirstOffset..<end,
                timeoutMilliseconds: Self.remainingMilliseconds(until: deadline)
            ) { message in
                if let record = match(message) { windowResults.append((message.timestampMilliseconds, record)) }
            }
            // Discard a window that was read only in part. Kafka sends older records first, so the newest results of
            // the window would be missing.
            guard isWindowComplete else { break }
            searchedOffsetCount += end - windowFirstOffset
            foundResults += windowResults.reversed()
            end = windowFirstOffset
            windowOffsetCount *= Self.windowGrowthFactor
        }
        if end > watermarks.logStartOffset { isComplete = false }
        return foundResults
    }

    private static func remainingMilliseconds(until deadline: ContinuousClock.Instant) -> Int64 {
        let remaining = ContinuousClock.now.duration(to: deadline).components
        return max(0, remaining.seconds * 1_000 + remaining.attoseconds / 1_000_000_000_000_000)
    }
}
