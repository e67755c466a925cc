/// Small texts that are kept on every primary. By them a worker notices that a primary has lost its data, or is another one.
///
/// On a cluster a text stands under one key at each of ``SlotAnchors``. For the control side, over the same configuration as the lanes: each
/// call blocks its thread until the answers are there, for a few of the configuration's deadlines at most, on a loop of its own. Not to be
/// shared between threads. No call is repeated.
public final class PrimaryMarks {
    /// A server that has keys, and what it answered.
    public struct Primary: Sendable {
        public let location: RedisURL.Location
        public let server: ServerInformation
        /// In the order of the names that were asked for; nil where there is none.
        public let texts: [String?]
        /// Its places for marks, as positions in ``SlotAnchors``; not empty.
        let anchors: [Int]
    }

    public enum Writing: Sendable {
        /// At each of the primary's places, whether there was one or not.
        case everywhere
        /// The same, but only over one that is there.
        case overAll
        /// At the place that is looked at, over one that is there.
        case overFirst
    }

    /// Marks asked for or written at a time.
    private static let batchMax = 1_024
    private static let textBytesMax = 256

    private let connections: PrimaryConnections
    private let group: String
    private let isCluster: Bool
    private var looks = 0
    /// Between two looks at who is primary, where nothing says that it has changed.
    private static let looksPerSearch = 10

    /// Connects to nothing yet.
    /// - Parameter group: whose marks they are; other groups have others.
    public init(configuration: RedisConfiguration, group: String) throws(RedisError) {
        connections = try PrimaryConnections(configuration: configuration)
        self.group = group
        if case .cluster = configuration.topology { isCluster = true } else { isCluster = false }
    }

    private var anchors: SlotAnchors { isCluster ? .ofCluster : .alone }

    private func key(_ name: String, at anchor: Int) -> [UInt8] {
        Array("{\(anchors.tags[anchor].tag)}\(group)/\(name)".utf8)
    }

    // MARK: - Looking

    /// Asks every primary what it has under these names. One that does not answer, or has no place for marks, is left out.
    /// - Throws: if it is not known which primaries there are.
    public func look(_ names: [String]) throws(RedisError) -> [Primary] {
        looks += 1
        if isCluster || looks.isMultiple(of: Self.looksPerSearch) { connections.searchAgain() }
        do throws(RedisError) {
            var primaries: [Primary] = []
            for (location, slots) in try connections.primaries(having: anchors.tags.map(\.slot)) {
                let own = anchors.tags.indices.filter { slots.contains(anchors.tags[$0].slot) }
                guard !own.isEmpty, let primary = look(names, at: location, own) else { continue }
                primaries.append(primary)
            }
            // One that does not answer may have been replaced.
            if primaries.isEmpty { connections.searchAgain() }
            return primaries
        } catch {
            connections.forget()
            throw error
        }
    }

    private func look(_ names: [String], at location: RedisURL.Location, _ anchors: [Int]) -> Primary? {
        guard case .success(let reply)? = connections.transmit([(location, Self.words("INFO", "server"))]).first
        else { return nil }
        // A user who may not ask learns nothing: then only what is missing is noticed.
        let server = ServerInformation(reply: reply)
        var texts: [String?] = []
        for start in stride(from: 0, to: names.count, by: Self.batchMax) {
            let batch = names[start..<min(start + Self.batchMax, names.count)]
            let commands = batch.map { (location, [Array("GET".utf8), key($0, at: anchors[0])]) }
            for answer in connections.transmit(commands) {
                switch answer {
                case .success(.null): texts.append(nil)
                case .success(.string(let text)):
                    texts.append(String(decoding: text.prefix(Self.textBytesMax), as: UTF8.self))
                default: return nil
                }
            }
        }
        return Primary(location: location, server: server, texts: texts, anchors: anchors)
    }

    // MARK: - Writing

    /// Writes marks to the primary.
    /// - Returns: for each whether it was written wherever it was to be; one that was to replace another and found none was not.
    public func write(_ marks: [(name: String, text: String)], to primary: Primary, _ writing: Writing) -> [Bool] {
        let places = writing.isEverywhere ? primary.anchors[...] : primary.anchors.prefix(1)
        var isWritten = [Bool](repeating: true, count: marks.count)
        for anchor in places {
            for start in stride(from: 0, to: marks.count, by: Self.batchMax) {
                let range = start..<min(start + Self.batchMax, marks.count)
                let commands = marks[range]
                    .map { mark in
                        let words = [Array("SET".utf8), key(mark.name, at: anchor), Array(mark.text.utf8)]
                        return (primary.location, writing.replaces ? words + [Array("XX".utf8)] : words)
                    }
                for (position, answer) in zip(range, connections.transmit(commands)) where !Self.isDone(answer) {
                    isWritten[position] = false
                }
            }
        }
        return isWritten
    }

    private static func isDone(_ answer: PrimaryConnections.Answer) -> Bool {
        if case .success(.string(let text)) = answer { text.elementsEqual("OK".utf8) } else { false }
    }

    private static func words(_ words: String...) -> [[UInt8]] { words.map { Array($0.utf8) } }
}

extension PrimaryMarks.Writing {
    fileprivate var isEverywhere: Bool { self != .overFirst }
    fileprivate var replaces: Bool { self != .everywhere }
}

extension ServerInformation {
    fileprivate init(reply: RedisValue) {
        if case .string(let text) = reply {
            self = text.withUnsafeBytes { ServerInformation($0) }
        } else {
            self = ServerInformation(UnsafeRawBufferPointer(start: nil, count: 0))
        }
    }
}
