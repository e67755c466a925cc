import Testing

@testable import Kafka

@Suite struct ClientPropertyTests {
    @Test(arguments: ["session.timeout.ms", "check.crcs", "client.id", "isolation.level"])
    func aPropertyOfAnyKindIsKnown(name: String) {
        let isKnown = ClientConfiguration().hasProperty(name)
        #expect(isKnown)
    }

    @Test(arguments: ["session.timeout", "", "no.such.property"])
    func whatIsNoPropertyIsNot(name: String) {
        let isKnown = ClientConfiguration().hasProperty(name)
        #expect(!isKnown)
    }
}
