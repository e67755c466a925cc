import Numbers
import Testing

@Suite struct SplitMix64Tests {
    /// The first outputs of the reference implementation for the seed 1234567
    /// (https://prng.di.unimi.it/splitmix64.c).
    @Test func `The numbers are those of the reference`() {
        var random = SplitMix64(seed: 1_234_567)
        let numbers = (0..<3).map { _ in random.next() }
        #expect(numbers == [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423])
    }

    @Test func `Random numbers stay below the bound`() {
        var random = SplitMix64(seed: 1)
        #expect((0..<1_000).allSatisfy { _ in random.next(below: 3) < 3 })
        #expect(random.next(below: 0) == 0)
    }

    @Test func `A jittered time is more than half of its limit, and at most the limit`() {
        var random = SplitMix64(seed: 1)
        #expect(Set((0..<50).map { _ in random.jitteredMilliseconds(3) }) == [2, 3])
        #expect(Set((0..<50).map { _ in random.jitteredMilliseconds(4) }) == [3, 4])
        #expect(random.jitteredMilliseconds(1) == 1)
    }

    @Test func `Unique identifiers contain their version`() {
        var random = SplitMix64(seed: 1)
        let identifier = random.nextUUID()
        #expect(identifier.0 >> 12 & 15 == 4 && identifier.1 >> 62 == 2)
    }
}
