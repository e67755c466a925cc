/// Small texts on every primary, by which a worker notices that a primary has lost its data or was replaced.
/// (R24)
///
/// In a cluster each text is stored under one key at each of ``SlotAnchors``. For use outside the lanes, with
/// the lanes' configuration. Each call blocks its thread until the answers arrive, at most a few of the
/// configuration's deadlines, on a loop of its own. Not thread-safe. No call is repeated.
public final class PrimaryMarks {
    /// A primary, and its answers to one reading.
    public struct Primary: Sendable {
        public let location: RedisURL.Location
        public let server: ServerInformation
        /// The texts under the requested names, in order; nil where there is none.
        public let texts: [String?]
        /// The primary's places for marks, as positions in ``SlotAnchors``. Not empty.
        let anchors: [Int]
    }

    public enum Writing: Sendable {
        /// Writes at all of the primary's places, whether a mark exists there or not.
        case writeAll
        /// Writes at those of the primary's places where a mark exists.
        case replaceAll
        /// Writes at the primary's first place, which `read` reads, if a mark exists there.
        case replaceFirst
    }

    /// The maximum number of marks that are read or written at a time.
    private static let batchMax = 1_024
    private static let textBytesMax = 256

    private let connections: PrimaryConnections
    private let group: String
    private let isCluster: Bool
    private var readings = 0
    /// After this many readings the primaries are searched for again, even if nothing indicates a change.
    private static let readingsPerSearch = 10

    /// Creates the object without connecting.
    ///
    /// - Parameter group: the group that the marks belong to. Each group has marks of its own.
    public init(configuration: RedisConfiguration, group: String) throws(RedisError) {
        connections = try PrimaryConnections(configuration: configuration)
        self.group = group
        if case .cluster = configuration.topology { isCluster = true } else { isCluster = false }
    }

    private var anchors: SlotAnchors { isCluster ? .ofCluster : .ofSingleServer }

    private func key(_ name: String, at anchor: Int) -> [UInt8] {
        Array("{\(anchors.tags[anchor].tag)}\(group)/\(name)".utf8)
    }

    // MARK: - Reading

    /// Reads the marks under these names on every primary. A primary that does not answer, or has no place
    /// for marks, is left out.
    ///
    /// - Throws: if the primaries cannot be found.
    public func read(_ names: [String]) throws(RedisError) -> [Primary] {
        readings += 1
        if isCluster || readings.isMultiple(of: Self.readingsPerSearch) { connections.searchAgain() }
        do throws(RedisError) {
            var primaries: [Primary] = []
            for (location, slots) in try connections.primaries(having: anchors.tags.map(\.slot)) {
                let own = anchors.tags.indices.filter { slots.contains(anchors.tags[$0].slot) }
                guard !own.isEmpty, let primary = read(names, at: location, own) else { continue }
                primaries.append(primary)
            }
            // No primary answered. Search again, because other servers may be the primaries now.
            if primaries.isEmpty { connections.searchAgain() }
            return primaries
        } catch {
            connections.closeAll()
            throw error
        }
    }

    private func read(_ names: [String], at location: RedisURL.Location, _ anchors: [Int]) -> Primary? {
        guard case .success(let reply)? = connections.transmit([(location, Self.words("INFO", "server"))]).first
        else { return nil }
        // If the user may not send INFO, the run id is unknown, and only missing marks are noticed.
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
    ///
    /// - Returns: for each mark, whether it was written at all places. `replaceAll` and `replaceFirst` do not
    ///   create a mark that is missing, because a new mark would hide that the server lost data between
    ///   `read` and `write`.
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
    fileprivate var isEverywhere: Bool { self != .replaceFirst }
    fileprivate var replaces: Bool { self != .writeAll }
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
