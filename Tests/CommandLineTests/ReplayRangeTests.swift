import CausewayCommandLine
import Testing

@testable import causeway

@Suite("Ranges and rates of a replay")
struct ReplayRangeTests {
    /// 2026-09-21 14:13:20 UTC.
    private static let nowMilliseconds: Int64 = 1_790_000_000_000

    private func range(_ from: String? = nil, _ to: String? = nil, _ offsets: String...) throws -> ReplayRange {
        try ReplayRange(from: from, to: to, offsets: offsets, nowMilliseconds: Self.nowMilliseconds)
    }

    @Test func `Times and durations are read`() throws {
        #expect(try range("2h") == .times(fromMilliseconds: Self.nowMilliseconds - 7_200_000, toMilliseconds: nil))
        #expect(
            try range("3d", "90s")
                == .times(
                    fromMilliseconds: Self.nowMilliseconds - 259_200_000,
                    toMilliseconds: Self.nowMilliseconds - 90_000
                )
        )
        #expect(
            try range("2026-09-21T14:13:19Z")
                == .times(fromMilliseconds: Self.nowMilliseconds - 1_000, toMilliseconds: nil)
        )
        #expect(
            try range("2026-09-21T16:13:19.500+02:00")
                == .times(fromMilliseconds: Self.nowMilliseconds - 500, toMilliseconds: nil)
        )
        let hour = try range("1h", "30m")
        #expect(hour.contains(timestampMilliseconds: Self.nowMilliseconds - 3_600_000))
        #expect(!hour.contains(timestampMilliseconds: Self.nowMilliseconds - 1_800_000))
        #expect(!hour.contains(timestampMilliseconds: Self.nowMilliseconds - 3_600_001))
    }

    @Test func `Offsets are read, the last one included`() throws {
        #expect(try range(nil, nil, "0:12-18", "3:7-") == .offsets([0: 12...18, 3: 7...Int64.max - 1]))
        #expect(try range(nil, nil, "0:5-5") == .offsets([0: 5...5]))
        #expect(try range(nil, nil, "0:5-9223372036854775807") == .offsets([0: 5...Int64.max - 1]))
    }

    @Test(arguments: [
        "yesterday", "-2h", "2", "h", "99999999999999999999d", "2026-09-21", "2026-13-21T00:00:00Z",
        "1960-01-01T00:00:00Z",
    ])
    func `An invalid time is refused with the option's name`(text: String) {
        #expect { try range(text) } throws: {
            ($0 as? ReplayRangeError)?.message.hasPrefix("--from \(text): ") ?? false
        }
    }

    @Test(arguments: ["1", "1:", "1:5", "1:-5", "1:9-5", "-1:0-1", "a:0-1", "0:1-2-3", "0:0x1-2", "2147483648:0-1"])
    func `Invalid offsets are refused with the option's name`(text: String) {
        #expect { try range(nil, nil, text) } throws: {
            ($0 as? ReplayRangeError)?.message.hasPrefix("--offsets \(text): ") ?? false
        }
    }

    @Test func `A range must be valid, and not empty`() {
        #expect(throws: ReplayRangeError.self) { try range() }
        #expect(throws: ReplayRangeError.self) { try range(nil, "1h") }
        #expect(throws: ReplayRangeError.self) { try range("1h", nil, "0:0-1") }
        #expect(throws: ReplayRangeError.self) { try range("1h", "2h") }
        #expect(throws: ReplayRangeError.self) { try range("2100-01-01T00:00:00Z") }
        #expect(throws: ReplayRangeError.self) { try range(nil, nil, "0:0-1", "0:5-9") }
    }

    @Test func `A rate allows the commands of the elapsed time, and one at the start`() {
        var rate = RecordRateLimit(recordsPerSecond: 2)
        #expect(rate.takeWaitSeconds(sentCount: 0, elapsedSeconds: 0) == 0)
        #expect(rate.takeWaitSeconds(sentCount: 1, elapsedSeconds: 0.25) == 0.25)
        #expect(rate.takeWaitSeconds(sentCount: 1, elapsedSeconds: 0.5) == 0)
        #expect(rate.takeWaitSeconds(sentCount: 200, elapsedSeconds: 99.75) == 0.25)
        // After five minutes without records, only the records of one second are written at once.
        #expect(rate.takeWaitSeconds(sentCount: 200, elapsedSeconds: 400) == 0)
        #expect(rate.takeWaitSeconds(sentCount: 202, elapsedSeconds: 400) == 0)
        #expect(rate.takeWaitSeconds(sentCount: 203, elapsedSeconds: 400) == 0.5)
        var unlimitedRate = RecordRateLimit(recordsPerSecond: nil)
        #expect(unlimitedRate.takeWaitSeconds(sentCount: .max, elapsedSeconds: 0) == 0)
    }

    @Test func `The progress bar shows the share`() {
        #expect(ReplayProgressBar.line("reading", 5, of: 10) == "reading  ███████████████░░░░░░░░░░░░░░░  5 of 10")
        #expect(ReplayProgressBar.line("reading", 11, of: 0).contains("░") == false)
    }
}
