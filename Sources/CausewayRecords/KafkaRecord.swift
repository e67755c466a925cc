import Foundation

/// A record that is written to a Kafka topic, or read from a Kafka topic.
public protocol KafkaRecord: Codable, Sendable {
    /// The topic's name in Causeway's default configuration.
    static var defaultTopic: String { get }
    /// The key of the Kafka record.
    var key: String { get }
    /// The value of the Kafka record. The same record always gives the same bytes, so that Causeway notices an
    /// unchanged state.
    func value() throws -> Data
    /// Decodes the value of a record that was read from Kafka. Throws an error if the value is not JSON, or lacks a
    /// required key.
    init(value: Data) throws
}

extension KafkaRecord {
    // Does the same as the worker's `StableJSON`, which this library cannot use: it has no dependencies.
    public func value() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }

    public init(value: Data) throws {
        self = try JSONDecoder().decode(Self.self, from: value)
    }
}

/// The APNs service that a token or channel belongs to.
public struct PushEnvironment: RawRepresentable, Codable, Hashable, Sendable {
    /// The name in records.
    public var rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// For apps from TestFlight and the App Store.
    public static let production = PushEnvironment(rawValue: "production")
    /// For builds from Xcode.
    public static let sandbox = PushEnvironment(rawValue: "sandbox")
}

/// Converts dates to seconds and milliseconds since 1970. Not used for a `Date` in a content state: such a date becomes
/// seconds since 2001, as ActivityKit decodes it.
enum UnixTime {
    /// Returns whole seconds, rounded down; nil if they do not fit 64 bits.
    static func seconds(_ date: Date) -> Int64? { Int64(exactly: date.timeIntervalSince1970.rounded(.down)) }

    /// Returns milliseconds, rounded to the nearest; nil if they do not fit 64 bits.
    static func milliseconds(_ date: Date) -> Int64? { Int64(exactly: (date.timeIntervalSince1970 * 1_000).rounded()) }

    static func date(milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }
}

extension KeyedDecodingContainer {
    func decodeMillisecondsIfPresent(_ key: Key) throws -> Date? {
        try decodeIfPresent(Int64.self, forKey: key).map { UnixTime.date(milliseconds: $0) }
    }

    /// Decodes a required date, which is a number of milliseconds.
    func decodeMilliseconds(_ key: Key) throws -> Date {
        UnixTime.date(milliseconds: try decode(Int64.self, forKey: key))
    }
}

extension KeyedEncodingContainer {
    mutating func encodeMilliseconds(_ date: Date?, _ key: Key) throws {
        guard let date else { return }
        guard let number = UnixTime.milliseconds(date) else {
            let context = EncodingError.Context(
                codingPath: codingPath + [key],
                debugDescription: "the date cannot be represented"
            )
            throw EncodingError.invalidValue(date, context)
        }
        try encode(number, forKey: key)
    }
}
