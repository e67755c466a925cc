/// The marks: small texts on every primary. A primary without them has lost its data or was replaced (R24). In a
/// cluster, each mark has many keys, in hash slots that are spread evenly over the cluster (``MarkHashTags``).
///
/// For code outside the lanes; not thread-safe. Each call blocks its thread until the replies arrive. There are none if
/// Redis is silent or slow, or if the task is cancelled (``PrimaryConnections``). A failed call is not repeated.
public final class PrimaryMarks {
    /// What one call of ``readMarks(_:)`` has read from one primary.
    public struct PrimaryReading: Sendable {
        public let location: RedisURL.Location
        public let server: ServerInformation
        /// The texts of the marks, in the order of the names in ``readMarks(_:)``; nil for a mark that the primary
        /// lacks.
        public let markTexts: [String?]
        /// The hash tags whose hash slots the primary owns, as indices of ``MarkHashTags/tags``. Not empty.
        let hashTagIndices: [Int]
    }

    /// Which copies of a mark are written to a primary. It has a copy in each of its hash slots that can have marks
    /// (``MarkHashTags``); a server without a cluster has one copy.
    public enum WriteMode: Sendable {
        /// Writes all copies, and creates those that are missing.
        case writeAllCopies
        /// Writes all copies that exist.
        case replaceExistingCopies
        /// Writes only the copy that ``readMarks(_:)`` reads, the first one, and only if it exists: one write for each
        /// mark.
        case replaceFirstCopy
    }

    /// The maximum number of marks that are read or written together. One server gets all of them, so the number must
    /// not exceed ``CommandConnection/commandsMax``.
    private static let marksPerBatchMax = 1_024
    private static let textBytesMax = 256

    private let connections: PrimaryConnections
    private let consumerGroup: String
    private let isCluster: Bool
    private var readCallCount = 0
    /// Without a cluster, every tenth call of ``readMarks(_:)`` searches for the primary again, to find a new primary
    /// even if no error shows the change. In a cluster, every call searches.
    private static let readsPerPrimarySearch = 10

    /// Opens no connection. The first call connects.
    ///
    /// - Parameter consumerGroup: the consumer group of the workers. Each group has its own marks.
    public init(configuration: RedisConfiguration, consumerGroup: String) throws(RedisError) {
        connections = try PrimaryConnections(configuration: configuration)
        self.consumerGroup = consumerGroup
        if case .cluster = configuration.topology { isCluster = true } else { isCluster = false }
    }

    private var hashTags: MarkHashTags { isCluster ? .forCluster : .forSingleServer }

    private func key(ofMark name: String, hashTagIndex: Int) -> [UInt8] {
        Array("{\(hashTags.tags[hashTagIndex].text)}\(consumerGroup)/\(name)".utf8)
    }

    // MARK: - Reading marks

    /// Reads the marks with these names on every primary. Leaves out a primary that does not reply, that refuses to
    /// read a mark, or that owns none of the hash slots with marks (``MarkHashTags``).
    ///
    /// - Throws: if the primaries cannot be found.
    public func readMarks(_ names: [String]) throws(RedisError) -> [PrimaryReading] {
        readCallCount += 1
        if isCluster || readCallCount.isMultiple(of: Self.readsPerPrimarySearch) { connections.forgetPrimaries() }
        do throws(RedisError) {
            var primaries: [PrimaryReading] = []
            for (location, hashSlots) in try connections.findPrimaries(having: hashTags.tags.map(\.hashSlot)) {
                let ownHashTagIndices = hashTags.tags.indices.filter { hashSlots.contains(hashTags.tags[$0].hashSlot) }
                guard !ownHashTagIndices.isEmpty, let primary = readMarks(names, at: location, ownHashTagIndices)
                else { continue }
                primaries.append(primary)
            }
            // If no primary replied, other servers may be the primaries now. The next call searches again.
            if primaries.isEmpty { connections.forgetPrimaries() }
            return primaries
        } catch {
            connections.closeAll()
            throw error
        }
    }

    private func readMarks(_ names: [String], at location: RedisURL.Location, _ hashTagIndices: [Int])
        -> PrimaryReading?
    {
        guard
            case .success(let reply)? =
                connections.sendWithoutRedirection([(location, Self.arguments("INFO", "server"))]).first
        else { return nil }
        // If Redis' user may not call INFO, the reply is an error, and `server` has no run id. The worker then notices
        // a restart of the primary only if marks are missing afterwards.
        let server = ServerInformation(reply: reply)
        var markTexts: [String?] = []
        for start in stride(from: 0, to: names.count, by: Self.marksPerBatchMax) {
            let batch = names[start..<min(start + Self.marksPerBatchMax, names.count)]
            let commands = batch.map {
                (location, [Array("GET".utf8), key(ofMark: $0, hashTagIndex: hashTagIndices[0])])
            }
            for markReply in connections.sendWithoutRedirection(commands) {
                switch markReply {
                case .success(.null): markTexts.append(nil)
                case .success(.string(let text)):
                    markTexts.append(String(decoding: text.prefix(Self.textBytesMax), as: UTF8.self))
                default: return nil
                }
            }
        }
        return PrimaryReading(location: location, server: server, markTexts: markTexts, hashTagIndices: hashTagIndices)
    }

    // MARK: - Writing marks

    /// Writes marks to the primary.
    ///
    /// - Returns: for each mark, whether all copies that `mode` asks for were written. If `mode` does not create
    ///   copies, a missing copy gives false, because it shows that the server has lost its data since
    ///   ``readMarks(_:)``. If the primary does not reply, writing ends, and each mark that may lack a copy gives
    ///   false.
    public func writeMarks(_ marks: [(name: String, text: String)], to primary: PrimaryReading, _ mode: WriteMode)
        -> [Bool]
    {
        let writtenHashTagIndices =
            mode.coversAllCopies ? primary.hashTagIndices[...] : primary.hashTagIndices.prefix(1)
        var isWritten = [Bool](repeating: true, count: marks.count)
        for start in stride(from: 0, to: marks.count, by: Self.marksPerBatchMax) {
            let range = start..<min(start + Self.marksPerBatchMax, marks.count)
            for hashTagIndex in writtenHashTagIndices {
                let commands = marks[range]
                    .map { mark in
                        let markKey = key(ofMark: mark.name, hashTagIndex: hashTagIndex)
                        let arguments = [Array("SET".utf8), markKey, Array(mark.text.utf8)]
                        return (
                            primary.location, mode.replacesOnlyExisting ? arguments + [Array("XX".utf8)] : arguments
                        )
                    }
                let replies = connections.sendWithoutRedirection(commands)
                for (index, reply) in zip(range, replies) where !Self.isOK(reply) { isWritten[index] = false }
                // The primary does not reply, or the task is cancelled. Write nothing more: in a cluster a mark has up
                // to 128 copies, and the write of each could wait as long for its reply.
                guard replies.allSatisfy(Self.hasReply) else {
                    for index in start..<marks.count { isWritten[index] = false }
                    return isWritten
                }
            }
        }
        return isWritten
    }

    private static func hasReply(_ reply: PrimaryConnections.ReplyResult) -> Bool {
        if case .success = reply { true } else { false }
    }

    private static func isOK(_ reply: PrimaryConnections.ReplyResult) -> Bool {
        if case .success(.string(let text)) = reply { text.elementsEqual("OK".utf8) } else { false }
    }

    private static func arguments(_ words: String...) -> [[UInt8]] { words.map { Array($0.utf8) } }
}

extension PrimaryMarks.WriteMode {
    fileprivate var coversAllCopies: Bool { self != .replaceFirstCopy }
    fileprivate var replacesOnlyExisting: Bool { self != .writeAllCopies }
}

extension ServerInformation {
    /// Reads a reply to `INFO server`. Empty if the reply is an error.
    init(reply: RedisValue) {
        if case .string(let text) = reply {
            self = text.withUnsafeBytes { ServerInformation($0) }
        } else {
            self = ServerInformation(UnsafeRawBufferPointer(start: nil, count: 0))
        }
    }
}
