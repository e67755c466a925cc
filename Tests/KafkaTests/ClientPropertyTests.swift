import Testing

@testable import Kafka

@Suite struct ClientPropertyTests {
    @Test(arguments: ["session.timeout.ms", "check.crcs", "client.id", "isolation.level"])
    func `A property of any kind is known`(name: String) {
        let isKnown = ClientConfiguration().hasProperty(name)
        #expect(isKnown)
    }

    @Test(arguments: ["session.timeout", "", "no.such.property"])
    func `An unknown property is recognized as unknown`(name: String) {
        let isKnown = ClientConfiguration().hasProperty(name)
        #expect(!isKnown)
    }
}
