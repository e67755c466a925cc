import Testbed
import Testing

@testable import CausewayConfiguration

/// The JSON Schemas have patterns for texts, and the loader has rules. A pattern may be less strict than its rule, but
/// it must not be stricter.
@Suite("Patterns of rules", .ownThread)
struct RulePatternTests {
    private static let texts =
        [
            "", "a", "name", "Name", "none", "päckchen", "a b", "a/b", "a_b", "a.b-c", "*", "match-*", "0123456789",
            "A1B2C3D4E5", "a1b2c3d4e5", "A1B2C3D4E", "A1B2C3D4E5F", "com.example.match", "kafka:9092", "a:1,b:65535",
            "[::1]:9092", "::1:9092", "[::1]", "::1", "SASL_SSL://a:9093", "kafka:9x", "kafka:", ":9092", "a,,b",
            "a b:1",
            "kafka:0", "a:9092,", "a:65536", "a:65536,b:1", "17.0.0.1", "redis://a", "rediss://user@a:6380/3",
            "redis://a,b:1",
            "unix:///run/redis.sock", "unix://", "redis:", "redis://", "REDIS://a", "http://otel:4318/v1/traces",
            "https://otel", "http://", "grpc://otel", "/path",
        ] + [32, 33, 64, 65, 155, 156, 249, 250, 253, 254, 255, 256].map { String(repeating: "a", count: $0) }

    private static var rules: [(name: String, rule: ConfigurationRule)] {
        ConfigurationSchema.keys.map { ($0.name, $0.rule) }
            + ConfigurationSchema.appSectionKeys.map { ($0.name, $0.rule) }
            + NamedSection.allCases.map { ($0.rawValue, $0.nameRule) }
    }

    @Test func `A pattern accepts every text that its rule accepts, and refuses some texts`() throws {
        var patternCount = 0
        for (name, rule) in Self.rules {
            guard let pattern = rule.pattern else { continue }
            patternCount += 1
            let expression = try Regex(pattern)
            let matchingTexts = Set(Self.texts.filter { $0.contains(expression) })
            let validTexts = Set(Self.texts.filter { rule.findFault($0) == nil })
            #expect(!validTexts.isEmpty, "\(name)")
            #expect(validTexts.isSubset(of: matchingTexts), "\(name): \(validTexts.subtracting(matchingTexts))")
            #expect(matchingTexts.count < Self.texts.count, "\(name)")
        }
        #expect(patternCount > 20)
    }
}
