/// The digests of the audiences that a member is in, leaves or joins: eight bytes each, little-endian.
public struct AudienceList: RandomAccessCollection {
    public static let digestBytes = 8

    private let bytes: UnsafeRawBufferPointer

    /// - Parameter bytes: must stay valid while the list is used. Bytes after the last complete digest are ignored.
    public init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    public var startIndex: Int { 0 }
    public var endIndex: Int { bytes.count / Self.digestBytes }

    public subscript(position: Int) -> AudienceDigest {
        let value = bytes.loadUnaligned(fromByteOffset: position * Self.digestBytes, as: UInt64.self)
        return AudienceDigest(value: UInt64(littleEndian: value))
    }
}

/// What has changed for a member: the reason why a worker writes an entry about the member into an audience.
public enum MembershipChangeKind: UInt8, CaseIterable, Sendable, BitwiseCopyable {
    /// The member is new in at least one of the audiences that its registration names.
    case joined
    case left
    /// The member was already in all audiences that its registration names. Only its token or other data may be new.
    case updated

    /// The name in metrics.
    public var name: String { "\(self)" }
}

/// The audiences that a member has left, and whose pages perhaps have no entry about the departure yet. Redis repeats
/// these audiences in its replies until a worker confirms that it has written the entries (R27).
public struct AudienceDepartures {
    /// The length of ``leftAtMilliseconds`` in bytes. This time (little-endian) is at the beginning of `bytes`, and the
    /// digests of the audiences follow.
    public static let timeBytes = 6

    private let bytes: UnsafeRawBufferPointer

    /// Nil if the bytes are not a time followed by one digest or more.
    public init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count > Self.timeBytes, (bytes.count - Self.timeBytes) % AudienceList.digestBytes == 0 else {
            return nil
        }
        self.bytes = bytes
    }

    /// When the member left, as Redis recorded it, UNIX milliseconds. A member that registered later stays in the
    /// audience. The caller passes this time to ``StoreCall/Operation/confirmDepartures(atMilliseconds:)``.
    public var leftAtMilliseconds: Int64 {
        bytes.prefix(Self.timeBytes).reversed().reduce(0) { $0 << 8 | Int64($1) }
    }

    public var audiences: AudienceList { AudienceList(UnsafeRawBufferPointer(rebasing: bytes[Self.timeBytes...])) }
}

extension Registration {
    /// Writes the digests of the audiences that a registration names, each once, in the form that ``AudienceList``
    /// reads.
    ///
    /// - Parameters:
    ///   - audiences: the array of a registration that was decoded from `record`.
    ///   - target: has room for eight bytes for each audience.
    /// - Returns: the number of bytes written.
    public static func writeDigests(
        of audiences: ByteRange,
        in record: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int {
        guard !audiences.isAbsent else { return 0 }
        var writtenByteCount = 0
        do throws(Fault) {
            let text = try JSONText(record)
            _ = try text.readArray(Int(audiences.offset), .audiences) { position throws(Fault) in
                let name = try text.readName(position, atMost: Limits.identifierBytesMax, .audiences)
                let digest = Self.digest(of: name.textRange, in: record)
                let writtenDigests = AudienceList(UnsafeRawBufferPointer(rebasing: target[..<writtenByteCount]))
                if !writtenDigests.contains(digest) {
                    target.storeBytes(of: digest.value.littleEndian, toByteOffset: writtenByteCount, as: UInt64.self)
                    writtenByteCount += AudienceList.digestBytes
                }
                return name.nextPosition
            }
        } catch {
            preconditionFailure("an array that was decoded before cannot be read")
        }
        return writtenByteCount
    }

    private static func digest(of name: TextRange, in record: UnsafeRawBufferPointer) -> AudienceDigest {
        guard name.isEscaped else { return AudienceDigest(of: name.range.bytes(in: record)) }
        return withUnsafeTemporaryAllocation(byteCount: Int(name.range.count), alignment: 1) { target in
            let writtenByteCount = unescape(name, from: record, into: target)
            return AudienceDigest(of: UnsafeRawBufferPointer(rebasing: target[..<writtenByteCount]))
        }
    }
}
