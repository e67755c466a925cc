import LiveActivity
import Testbed
import Testing

@testable import ActivityStore

extension ScriptTests {
    private func makeOldCommand(_ event: Event, _ timestamp: Int64, token: OwnedToken? = nil) -> Operation {
        .command(
            event: event,
            version: version(timestamp),
            digest: 2,
            pace: .spaced(0),
            options: AdmissionOptions(
                requestsHighPriority: false,
                mayUseReserve: false,
                hasAlert: false,
                isTooOld: true
            ),
            registration: token
        )
    }

    @Test(arguments: [Event.update, .end])
    func `An old command is not sent to an unknown activity`(event: Event) throws {
        let comparison = try ScriptComparison()
        #expect(comparison.verdict(makeOldCommand(event, 100)) == .expired)
        #expect(comparison.verdict(makeRegistration("aa")) == .registered)
        #expect(comparison.verdict(makeOldCommand(event, 101)) == .expired, "a token does not say what the phone shows")
        #expect(comparison.verdict(makeOldCommand(event, 102, token: token("bb", at: 101))) == .expired)
        let sendReply = comparison.perform(command(.update, 99))
        #expect(
            sendReply.verdict == .send && sendReply.registration == token("bb", at: 101),
            "the token of the expired command counts"
        )
        comparison.settle(acceptedSettlement(99))
        #expect(comparison.verdict(makeOldCommand(event, 103)) == .send, "now Redis knows a version")
    }
}
