import Delivery
import Testing

@testable import CausewayWorker

/// ``ProviderStatus`` decides when a lane tells the worker whether APNs refuses the provider.
struct ProviderStatusTests {
    private func moment(_ milliseconds: Int64) -> Moment {
        Moment(monotonicMilliseconds: milliseconds, wallMilliseconds: milliseconds)
    }

    @Test func `A changed status is written at once, an unchanged one every ten seconds`() {
        var status = ProviderStatus()
        let isWritten = [(0, false), (9_999, false), (10_000, false), (10_001, true), (20_000, true)]
            .map { status.noteResponse(isRefused: $1, now: moment($0)) }
        #expect(isWritten == [true, false, true, true, false])
    }

    /// APNs refused the provider in the idle lane's last response, and this lane told the worker so. If the busy lane
    /// did not repeat that APNs accepts the provider, the worker would stay unready.
    @Test func `The lane with traffic decides, not an idle lane that was refused last`() {
        var (busy, idle) = (ProviderStatus(), ProviderStatus())
        var isRefusedForWorker = false
        func respond(_ lane: inout ProviderStatus, isRefused: Bool, at milliseconds: Int64) {
            if lane.noteResponse(isRefused: isRefused, now: moment(milliseconds)) { isRefusedForWorker = isRefused }
        }
        respond(&busy, isRefused: false, at: 0)
        respond(&idle, isRefused: true, at: 1)
        #expect(isRefusedForWorker)
        respond(&busy, isRefused: false, at: 10_000)
        #expect(!isRefusedForWorker)
    }
}
