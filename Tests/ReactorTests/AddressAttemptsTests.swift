import Reactor
import Testing

struct AddressAttemptsTests {
    private static func makeAddresses(_ count: Int) -> [SocketAddress] {
        (0..<count).map { .loopback(port: UInt16(1_000 + $0)) }
    }

    @Test func `Each address gets an equal share of the time that is left`() {
        let addresses = Self.makeAddresses(3)
        var attempts = AddressAttempts(addresses, deadlineMilliseconds: 9_000)
        let first = attempts.next(nowMilliseconds: 3_000)
        #expect(first?.address == addresses[0] && first?.timeoutMilliseconds == 2_000)
        // The first attempt failed at once, so each of the other two addresses gets half of the time.
        let second = attempts.next(nowMilliseconds: 3_000)
        #expect(second?.address == addresses[1] && second?.timeoutMilliseconds == 3_000)
        let last = attempts.next(nowMilliseconds: 6_000)
        #expect(last?.address == addresses[2] && last?.timeoutMilliseconds == 3_000)
        #expect(attempts.next(nowMilliseconds: 6_000) == nil)
    }

    @Test func `An attempt after the deadline gets a millisecond`() {
        var attempts = AddressAttempts(Self.makeAddresses(2), deadlineMilliseconds: 1_000)
        #expect(attempts.next(nowMilliseconds: 2_000)?.timeoutMilliseconds == 1)
        #expect(attempts.next(nowMilliseconds: 1_001)?.timeoutMilliseconds == 1)
    }

    @Test func `Further addresses of a host are not tried`() {
        var attempts = AddressAttempts(Self.makeAddresses(20), deadlineMilliseconds: 1_000)
        var triedCount = 0
        while attempts.next(nowMilliseconds: 0) != nil { triedCount += 1 }
        #expect(triedCount == AddressAttempts.addressesMax)
    }
}
