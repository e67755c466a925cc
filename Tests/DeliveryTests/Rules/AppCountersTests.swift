import Testing

@testable import Delivery

/// The counters of an app count only records of this app.
@Suite struct AppCountersTests {
    /// A new counter may be increased for any record, also for a wrong one.
    @Test func `A record without a configured app counts for no app`() throws {
        let core = CoreHarness()
        core.receive(CommandText.update(1, app: "com.example.unknown"))
        #expect(core.results.map(\.outcome) == ["invalid"])
        let record = try #require(core.outgoingRecords.first).record
        core.delivery.countReplacedCommand(of: record)
        #expect(core.counters(of: 0) == AppCounters())
    }
}
