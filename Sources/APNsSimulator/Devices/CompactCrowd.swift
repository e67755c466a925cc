import LiveActivity
import Numbers

/// A crowd: many phones of one app, each with one activity, for tests with an audience of a million. Queries return
/// sums over the whole crowd, not single phones.
///
/// A phone of a crowd is called compact: it takes a few bytes of memory. The id and token of its activity are computed
/// from the phone's number, so a test can compute them too.
public struct CompactCrowd: Sendable, Equatable {
    /// How the id of an activity is formed from its phone's number.
    public enum IdentifierForm: String, Sendable, CaseIterable {
        /// The id is the crowd's name, followed by the phone's number.
        case numbered
        /// The id is a UUID.
        case uuid
    }

    /// The maximum number of phones in one crowd.
    public static let phonesMax = 10_000_000

    /// The app's bundle id.
    public var app: String
    /// The crowd's name, different for each crowd of an app.
    public var name: String
    /// The number of phones, 1...``phonesMax``.
    public var phoneCount: Int
    public var audiences: [String] = []
    public var environment = Environment.sandbox
    /// Every n-th phone has frequent updates switched on, where n is this number; 0: no phone has.
    public var frequentUpdatesEveryNthPhone = 0
    public var identifierForm = IdentifierForm.numbered
    /// The timestamp of the content that the activities show at first, UNIX seconds. If it is 0, the registrations do
    /// not contain it.
    public var timestamp: Int64 = 0

    public init(app: String, name: String, phoneCount: Int) {
        self.app = app
        self.name = name
        self.phoneCount = phoneCount
    }

    /// Returns the id of a phone's activity.
    ///
    /// - Parameter number: 0..<``phoneCount``.
    public func activityIdentifier(_ number: Int) -> String {
        switch identifierForm {
        case .numbered: return "\(name)\(number)"
        case .uuid:
            var random = SplitMix64(seed: key ^ UInt64(number) &* 0x9E37_79B9_7F4A_7C15)
            let (high, low) = (random.next(), random.next())
            let digits = CompactToken.hexadecimal(of: [high, low])
            let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)]
            return parts.map { String(decoding: digits[$0.0..<$0.1], as: UTF8.self) }.joined(separator: "-")
        }
    }

    public func hasFrequentUpdates(_ number: Int) -> Bool {
        frequentUpdatesEveryNthPhone > 0 && number % frequentUpdatesEveryNthPhone == 0
    }

    /// Returns the update token of a phone's activity, 160 hexadecimal digits.
    ///
    /// - Parameter generation: the number of tokens that the activity had before. 0...255.
    public func token(_ number: Int, generation: Int = 0) -> String {
        let words = CompactToken.words(crowd: key, number: UInt32(number), generation: UInt8(generation))
        return String(decoding: CompactToken.hexadecimal(of: words), as: UTF8.self)
    }

    /// Returns the registration that the app posts when a phone's activity gets its token.
    ///
    /// - Parameter registeredAtMilliseconds: UNIX milliseconds.
    public func registration(
        _ number: Int,
        generation: Int = 0,
        registeredAtMilliseconds: Int64
    ) -> RegistrationRecord {
        let activity = activityIdentifier(number)
        var writer = SimulatorJSONWriter()
        writer.object { writer in
            writer.member("app", app)
            writer.member("environment", environment.rawValue)
            writer.member("registeredAt", registeredAtMilliseconds)
            writer.member("activity", activity)
            writer.member("token", token(number, generation: generation))
            if !audiences.isEmpty {
                writer.member("audiences", array: { writer in for audience in audiences { writer.string(audience) } })
            }
            writer.member("frequentUpdates", hasFrequentUpdates(number))
            if timestamp > 0 {
                writer.member("shows", object: { writer in writer.member("timestamp", timestamp) })
            }
        }
        return RegistrationRecord(key: activity, value: writer.bytes)
    }

    /// The first eight bytes of every token of the crowd. They show to which crowd a token belongs.
    var key: UInt64 {
        var hash = CrowdKeyHash()
        hash.add(app)
        hash.add(name)
        return hash.value
    }
}

/// The token of a compact phone: ten words of eight bytes. The first two words contain the crowd's key, the phone's
/// number and the token's generation. The other eight words are derived from these three values.
enum CompactToken {
    static let wordCount = TokenTable.tokenByteCount / 8
    private static let multiplier: UInt64 = 0x9E37_79B9_7F4A_7C15

    static func words(crowd key: UInt64, number: UInt32, generation: UInt8) -> [UInt64] {
        let packedNumbers = UInt64(generation) << 32 | UInt64(number)
        var random = SplitMix64(seed: key &+ packedNumbers &* multiplier)
        var words = [key, packedNumbers ^ secondWordMask(crowd: key)]
        for _ in 2..<wordCount { words.append(random.next()) }
        return words
    }

    static func key(of token: UnsafeRawBufferPointer) -> UInt64 { word(0, of: token) }

    /// Reads from a token the phone's number and the token's generation: how many tokens the activity had before.
    ///
    /// - Parameter token: `TokenTable.tokenByteCount` bytes whose first word is the crowd's key.
    /// - Returns: nil if the other words are not those of a token of the crowd.
    static func numberAndGeneration(
        of token: UnsafeRawBufferPointer,
        crowd key: UInt64
    ) -> (number: Int, generation: UInt8)? {
        let packedNumbers = word(1, of: token) ^ secondWordMask(crowd: key)
        guard packedNumbers >> 40 == 0 else { return nil }
        var random = SplitMix64(seed: key &+ packedNumbers &* multiplier)
        for index in 2..<wordCount where word(index, of: token) != random.next() { return nil }
        return (Int(truncatingIfNeeded: packedNumbers & 0xFFFF_FFFF), UInt8(truncatingIfNeeded: packedNumbers >> 32))
    }

    private static func word(_ index: Int, of token: UnsafeRawBufferPointer) -> UInt64 {
        UInt64(bigEndian: token.loadUnaligned(fromByteOffset: index * 8, as: UInt64.self))
    }

    /// Returns a crowd's mask. The second word of a token is the phone's number and the generation, XORed with the
    /// mask.
    private static func secondWordMask(crowd key: UInt64) -> UInt64 {
        var random = SplitMix64(seed: key)
        return random.next()
    }

    /// Returns sixteen lower-case hexadecimal digits for each word, the most significant digit first.
    static func hexadecimal(of words: [UInt64]) -> [UInt8] {
        words.map(\.bigEndian)
            .withUnsafeBytes { bytes in
                [UInt8](unsafeUninitializedCapacity: bytes.count * 2) { digits, count in
                    count = Hexadecimal.write(bytes, to: UnsafeMutableRawBufferPointer(digits))
                }
            }
    }
}

/// A hash of a few short texts. It is the same in every process, so that the lab and the simulator compute the same
/// tokens for a crowd.
struct CrowdKeyHash {
    private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    mutating func add(_ text: String) {
        for byte in text.utf8 { value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        var random = SplitMix64(seed: value)
        value = random.next()
    }
}
