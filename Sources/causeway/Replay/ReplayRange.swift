import Foundation

/// Selects the records of a topic that are replayed.
enum ReplayRange: Equatable {
    /// Records by their timestamps in Kafka, UNIX milliseconds. `toMilliseconds` is exclusive; nil: to the topic's end.
    case times(fromMilliseconds: Int64, toMilliseconds: Int64?)
    /// Records by the first and the last offset of each named partition. Other partitions are not read.
    case offsets([Int32: ClosedRange<Int64>])

    func contains(timestampMilliseconds: Int64) -> Bool {
        switch self {
        case .times(let from, let to): timestampMilliseconds >= from && to.map { timestampMilliseconds < $0 } ?? true
        case .offsets: true
        }
    }
}

/// A fault in the text of a range.
struct ReplayRangeError: Error, Equatable {
    var message: String
}

extension ReplayRange {
    /// The last offset of a range without an end. It is one below the greatest number, so that adding 1 does not
    /// overflow.
    static let openEndOffset = Int64.max - 1

    /// - Parameters:
    ///   - offsets: texts of the form `partition:from-to` or `partition:from-`.
    ///   - nowMilliseconds: the time from which durations count back.
    init(from: String?, to: String?, offsets: [String], nowMilliseconds: Int64) throws(ReplayRangeError) {
        guard !offsets.isEmpty else {
            guard let from else { throw ReplayRangeError(message: "the range is missing: add --from or --offsets") }
            let beginsAtMilliseconds = try Self.parseTimeMilliseconds(from, option: "--from", nowMilliseconds)
            let endMilliseconds = try to.map { text throws(ReplayRangeError) in
                try Self.parseTimeMilliseconds(text, option: "--to", nowMilliseconds)
            }
            guard endMilliseconds.map({ beginsAtMilliseconds < $0 }) ?? (beginsAtMilliseconds <= nowMilliseconds) else {
                throw ReplayRangeError(message: "--from \(from): must be before \(to.map { "--to \($0)" } ?? "now")")
            }
            self = .times(fromMilliseconds: beginsAtMilliseconds, toMilliseconds: endMilliseconds)
            return
        }
        guard from == nil, to == nil else {
            throw ReplayRangeError(message: "use either --offsets, or --from and --to")
        }
        var ranges: [Int32: ClosedRange<Int64>] = [:]
        for text in offsets {
            guard let (partition, range) = Self.parsePartitionOffsets(text) else {
                throw ReplayRangeError(
                    message: "--offsets \(text): must be partition:from-to, such as 0:1200-1800 or 0:1200-"
                )
            }
            guard ranges.updateValue(range, forKey: partition) == nil else {
                throw ReplayRangeError(message: "--offsets \(text): partition \(partition) is named twice")
            }
        }
        self = .offsets(ranges)
    }

    private static func parsePartitionOffsets(_ text: String) -> (Int32, ClosedRange<Int64>)? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let partition = Int32(parts[0]), partition >= 0 else { return nil }
        let ends = parts[1].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Int64(ends[0]), first >= 0 else { return nil }
        let last = ends[1].isEmpty ? openEndOffset : Int64(ends[1]).map { min($0, openEndOffset) }
        guard let last, first <= last else { return nil }
        return (partition, first...last)
    }

    /// Reads a time of RFC 3339, or a duration before now: `90s`, `30m`, `2h`, `3d`.
    static func parseTimeMilliseconds(_ text: String, option: String, _ nowMilliseconds: Int64) throws(ReplayRangeError)
        -> Int64
    {
        if let milliseconds = parseDurationMilliseconds(text) { return max(0, nowMilliseconds - milliseconds) }
        for options: ISO8601DateFormatter.Options in [
            [.withInternetDateTime], [.withInternetDateTime, .withFractionalSeconds],
        ] {
            let formatter = ISO8601DateFormatter()
            formatter.formatOptions = options
            guard let date = formatter.date(from: text) else { continue }
            let milliseconds = (date.timeIntervalSince1970 * 1_000).rounded()
            if let exactMilliseconds = Int64(exactly: milliseconds), exactMilliseconds >= 0 { return exactMilliseconds }
        }
        throw ReplayRangeError(
            message:
                """
                \(option) \(text): must be a time, such as 2026-07-19T15:00:00Z, or how long ago, such as 90s, 30m, 2h \
                or 3d
                """
        )
    }

    private static func parseDurationMilliseconds(_ text: String) -> Int64? {
        let units: [Character: Int64] = ["s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]
        guard let unit = text.last.flatMap({ units[$0] }), text.dropLast().allSatisfy(\.isNumber),
            let count = Int64(text.dropLast())
        else { return nil }
        let (milliseconds, overflows) = count.multipliedReportingOverflow(by: unit)
        return overflows ? nil : milliseconds
    }
}
