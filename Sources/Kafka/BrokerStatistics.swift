import Glibc

/// What librdkafka's statistics (its `STATISTICS.md`) say about a client's connections to brokers. Only they show that
/// a broker is back: librdkafka reports an error when the last broker is lost, but nothing afterwards. They also show
/// early that a broker hangs.
public struct BrokerStatistics: Equatable, Sendable {
    /// If a broker that owes a response has sent nothing for this time, it counts as not responding. A healthy broker
    /// responds to heartbeats and fetches in less than a second.
    static let silenceMicrosecondsMax: Int64 = 5_000_000

    /// Whether a connection to a broker is up.
    public private(set) var isAnyConnectionUp = false
    /// Whether a broker has sent something in the last 5 s (``silenceMicrosecondsMax``), or librdkafka does not report
    /// when.
    private(set) var hasReceivedLately = false
    /// Whether a broker that owes a response has sent nothing for 5 s (``silenceMicrosecondsMax``). While this client
    /// joins its group, the group's coordinator does not count.
    private(set) var isResponseOverdue = false

    public init(json: UnsafeRawBufferPointer) {
        // While this client joins its group, the coordinator may respond late, because it first waits for the other
        // members. (`rareIndex`: the letter `j` is rare in the statistics.)
        let isJoining =
            json.endIndex(of: "\"join_state\": \"wait-join\"", rareIndex: 1, from: 0) != nil
            || json.endIndex(of: "\"join_state\": \"wait-sync\"", rareIndex: 1, from: 0) != nil
        var start = 0
        // Go through the brokers whose connection is up. (The letter `U`, at index 9 of the text, is rare in the
        // statistics.)
        while let end = json.endIndex(of: Self.upText, rareIndex: 9, from: start) {
            start = end
            isAnyConnectionUp = true
            guard let awaitedCount = json.number(of: "\"waitresp_cnt\":", from: end),
                let silenceMicroseconds = json.number(of: "\"rxidle\":", from: end)
            else {
                // This release of librdkafka does not report when a broker last sent something. So every connection
                // that is up counts as one that has received something lately.
                hasReceivedLately = true
                continue
            }
            let isCoordinator = json.hasText("\"source\":\"logical\", ", endingAt: end - Self.upText.utf8CodeUnitCount)
            // -1: the broker has sent nothing since it was connected.
            if (0..<Self.silenceMicrosecondsMax).contains(silenceMicroseconds) {
                hasReceivedLately = true
            } else if awaitedCount > 0, silenceMicroseconds >= 0, !(isCoordinator && isJoining) {
                isResponseOverdue = true
            }
        }
    }

    private static let upText: StaticString = "\"state\":\"UP\""

    /// Whether any broker can be reached; false if no connection is up. Otherwise silence alone does not change the
    /// previous answer, because a client without partitions may exchange nothing with a healthy broker. Only an overdue
    /// response changes it to false, and only received bytes change it to true.
    ///
    /// - Parameter wasUp: the previous answer; nil: there is none.
    public func isAnyBrokerUp(wasUp: Bool?) -> Bool {
        isAnyConnectionUp && (hasReceivedLately || wasUp != false && !isResponseOverdue)
    }
}

extension UnsafeRawBufferPointer {
    /// Returns the index after the first occurrence of a text at `start` or later; nil if there is none.
    ///
    /// - Parameter rareIndex: the index of a letter of `text` that is rare in these bytes, so that the fast `memchr`
    ///   can search for this letter first.
    fileprivate func endIndex(of text: StaticString, rareIndex: Int, from start: Int) -> Int? {
        guard let base = baseAddress else { return nil }
        let rareLetter = Int32(text.utf8Start[rareIndex])
        var index = start + rareIndex
        while index < count, let found = memchr(base + index, rareLetter, count - index) {
            index = found - UnsafeMutableRawPointer(mutating: base) + 1
            let end = index - 1 - rareIndex + text.utf8CodeUnitCount
            if hasText(text, endingAt: end) { return end }
        }
        return nil
    }

    fileprivate func hasText(_ text: StaticString, endingAt end: Int) -> Bool {
        let start = end - text.utf8CodeUnitCount
        guard let base = baseAddress, start >= 0, end <= count else { return false }
        return memcmp(base + start, text.utf8Start, text.utf8CodeUnitCount) == 0
    }

    /// Returns the number after the first occurrence of a key at `start` or later; nil if there is none.
    fileprivate func number(of key: StaticString, from start: Int) -> Int64? {
        guard let end = endIndex(of: key, rareIndex: 1, from: start) else { return nil }
        let digits = self[end...]
            .prefix { $0 == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return Int64(String(decoding: digits, as: UTF8.self))
    }
}
