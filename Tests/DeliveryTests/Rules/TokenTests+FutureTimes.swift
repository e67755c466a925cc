import Delivery
import LiveActivity
import Testing

extension TokenTests {
    /// Former releases stored the times of clocks that are ahead. Such a time does not say that the token was
    /// registered after its death.
    @Test func `A dead token whose registration time is a day ahead is invalidated`() throws {
        let core = CoreHarness()
        core.receive(.update(1))
        core.reply(.send, registeredAtMilliseconds: Self.startMilliseconds + 86_400_000)
        core.push()
        core.respond(.tokenDead, status: 410, invalidAt: Self.startMilliseconds)
        #expect(core.invalidations.map(\.invalidAtMilliseconds) == [Self.startMilliseconds])
        core.acknowledgeOutgoingRecords()
        #expect(try core.oldestCall.retirement?.invalidAtMilliseconds == Self.startMilliseconds)
    }
}
