import LiveActivity
import Testing

@testable import Audiences

@Suite struct FanoutKeyTests {
    /// All records of a range, and all of a channel, have the same key, so that they are in one partition.
    @Test(arguments: [(nil, "12"), (.production, "p"), (.sandbox, "s")] as [(APNsEnvironment?, String)])
    func `A key has the audience's digest, and the range or the channel's environment`(
        environment: APNsEnvironment?,
        suffix: String
    ) {
        var writer = JSONWriter()
        FanoutKey(AudienceDigest(value: 0x0123_4567_89AB_CDEF), rangeIndex: 12, environment).write(to: &writer)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == "0123456789abcdef/\(suffix)")
    }
}
