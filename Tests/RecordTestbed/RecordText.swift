import LiveActivity
import Testing

/// A JSON object whose members a test changes one at a time. The members keep their order.
package struct RecordText: Sendable, CustomTestStringConvertible {
    package enum Value: Sendable, ExpressibleByStringInterpolation {
        /// JSON text.
        case raw(String)
        case object(RecordText)

        package init(stringLiteral value: String) { self = .raw(value) }

        package var text: String {
            switch self {
            case .raw(let text): text
            case .object(let object): object.text
            }
        }
    }

    private var members: [(key: String, value: Value)]

    package init(_ members: [(String, Value)]) {
        self.members = members.map { (key: $0.0, value: $0.1) }
    }

    /// Returns a copy in which the member at `path` has another value. The value is JSON text. Dots in the path lead
    /// into objects: "aps.alert.title". A new key comes last.
    package func with(_ path: String, _ value: String) -> RecordText {
        replacing(path[...], .raw(value))
    }

    package func without(_ path: String) -> RecordText {
        replacing(path[...], nil)
    }

    private func replacing(_ path: Substring, _ value: Value?) -> RecordText {
        var copy = self
        let dot = path.firstIndex(of: ".") ?? path.endIndex
        let head = String(path[..<dot])
        let index = members.firstIndex { $0.key == head }
        var newValue = value
        if dot != path.endIndex, let index, case .object(let object) = members[index].value {
            newValue = .object(object.replacing(path[path.index(after: dot)...], value))
        }
        switch (index, newValue) {
        case (let index?, let newValue?): copy.members[index].value = newValue
        case (let index?, nil): copy.members.remove(at: index)
        case (nil, let newValue?): copy.members.append((head, newValue))
        case (nil, nil): break
        }
        return copy
    }

    package var testDescription: String { String(text.prefix(200)) }

    package var text: String {
        "{" + members.map { "\"\($0.key)\":\($0.value.text)" }.joined(separator: ",") + "}"
    }
}

/// Examples of records. Their times are near 1790000000: 2026-09-21 14:13:20 UTC.
extension RecordText {
    package static let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
    package static let alert = RecordText([("title", #""Goal""#), ("body", #""2:1""#), ("sound", #""default""#)])
    package static let updateAps = RecordText([
        ("timestamp", "1790000000"), ("event", #""update""#), ("content-state", #"{"home":2,"away":1}"#),
        ("stale-date", "1790000600"), ("relevance-score", "80"), ("alert", .object(alert)),
    ])
    package static let startAps = RecordText([
        ("timestamp", "1790000000"), ("event", #""start""#), ("attributes-type", #""MatchAttributes""#),
        ("attributes", #"{"match":"m1"}"#), ("content-state", #"{"home":0,"away":0}"#), ("alert", .object(alert)),
    ])
    package static let endAps = RecordText([
        ("timestamp", "1790000000"), ("event", #""end""#), ("content-state", #"{"home":2,"away":1}"#),
        ("dismissal-date", "1790003600"),
    ])
    package static let update = RecordText([
        ("app", #""com.example.scores""#), ("activity", #""m1:7f""#), ("id", #""feed/7""#), ("sequence", "42"),
        ("priority", "10"), ("expiration", "1790000900"), ("token", "\"\(token)\""), ("environment", #""sandbox""#),
        ("aps", .object(updateAps)), ("payload", #"{"match":"m1","live":true}"#),
    ])
    package static let toChannel = RecordText([
        ("app", #""com.example.scores""#), ("channel", #""dHN0LXNyY2gtY2hubA==""#), ("environment", #""sandbox""#),
        ("id", #""feed/7""#), ("sequence", "42"), ("aps", .object(updateAps)),
    ])
    package static let start = RecordText([
        ("app", #""com.example.scores""#), ("activity", #""m1:7f""#), ("device", #""7f""#), ("aps", .object(startAps)),
    ])
    package static let end = RecordText([
        ("app", #""com.example.scores""#), ("activity", #""m1:7f""#), ("aps", .object(endAps)),
    ])
    package static let toAudience = update.without("activity").without("token").without("environment")
        .with("audience", #""m1""#)
    package static let startOfAudience = start.without("device").with("activity", #""m1:{device}""#)
        .with("audience", #""m1""#)
    package static let shows = RecordText([("timestamp", "1790000000"), ("sequence", "7")])
    package static let registration = RecordText([
        ("app", #""com.example.scores""#), ("environment", #""production""#), ("registeredAt", "1790000000123"),
        ("activity", #""m1:7f""#), ("token", "\"\(token)\""), ("audiences", #"["m1","world-cup"]"#),
        ("frequentUpdates", "true"), ("shows", .object(shows)),
    ])
    package static let pushToStart = RecordText([
        ("app", #""com.example.scores""#), ("environment", #""sandbox""#), ("registeredAt", "1790000000123"),
        ("device", #""7f""#), ("attributesType", #""MatchAttributes""#), ("token", "\"\(token)\""),
    ])
}

/// A record's bytes in an allocation of their own, so that AddressSanitizer can detect a read beyond them.
package final class Record {
    package let bytes: UnsafeRawBufferPointer

    package init(_ content: some Collection<UInt8>) {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: content.count, alignment: 1)
        copy.copyBytes(from: content)
        bytes = UnsafeRawBufferPointer(copy)
    }

    package convenience init(_ text: String) {
        self.init(text.utf8)
    }

    deinit {
        bytes.deallocate()
    }

    package func command() throws(Fault) -> Command { try Command.decode(bytes) }

    package func registration() throws(Fault) -> Registration { try Registration.decode(bytes) }

    /// Returns a string of the record with its escapes decoded; nil if the string is absent.
    package func string(_ text: TextRange) -> String? {
        guard !text.isAbsent else { return nil }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(text.range.count), alignment: 1)
        defer { buffer.deallocate() }
        let count = unescape(text, from: bytes, into: buffer)
        return String(decoding: buffer[..<count], as: UTF8.self)
    }

    package func string(_ range: ByteRange) -> String? {
        range.isAbsent ? nil : String(decoding: range.bytes(in: bytes), as: UTF8.self)
    }

    /// Returns the body of the push for a command that was decoded from this record.
    package func body(_ command: Command) -> (text: [UInt8], layout: PushBody.Layout) {
        var text = [UInt8](repeating: 0xAA, count: command.bodyByteCount)
        let layout = text.withUnsafeMutableBytes { PushBody.write(command, from: bytes, into: $0) }
        return (text, layout)
    }

    package func digest(_ command: Command) -> UInt64 {
        let (text, layout) = body(command)
        return text.withUnsafeBytes { PushBody.digest($0, layout) }
    }
}

/// Returns the fault of decoding a command; nil if it is valid.
package func commandFault(_ text: RecordText) -> Fault? { commandFault(text.text) }

package func commandFault(_ text: String) -> Fault? {
    do throws(Fault) {
        _ = try Record(text).command()
        return nil
    } catch {
        return error
    }
}

package func registrationFault(_ text: RecordText) -> Fault? {
    do throws(Fault) {
        _ = try Record(text.text).registration()
        return nil
    } catch {
        return error
    }
}
