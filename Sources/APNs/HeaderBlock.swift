import CNghttp2
import Glibc

/// The header fields of a connection's requests: built once, patched per push, read by nghttp2 in place.
///
/// Apple asks for `:path` and `authorization` as literals without indexing, for `apns-id` and `apns-expiration` indexed
/// on their first use only, and for everything else with incremental indexing ("Sending notification requests to
/// APNs"). nghttp2 decides that by itself for `:path` and `authorization`; `NO_INDEX` says it for the others.
struct HeaderBlock: ~Copyable {
    private enum Field: Int, CaseIterable {
        case method, scheme, authority, path, authorization, pushType, topic, priority, expiration, identifier
    }

    let fields: UnsafeMutablePointer<nghttp2_nv>
    static let count = Field.allCases.count

    /// The texts of the fields that stay the same.
    private let constants: UnsafeMutableRawBufferPointer
    private static let noCopy = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue)
    private static let noIndex = UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
    private static let priority5: StaticString = "5"
    private static let priority10: StaticString = "10"

    init(profile: PushProfile, authority: String) {
        fields = .allocate(capacity: Self.count)
        fields.initialize(repeating: nghttp2_nv(), count: Self.count)
        let constantText = authority + profile.pushType + profile.topic
        constants = .allocate(byteCount: constantText.utf8.count, alignment: 16)
        constants.copyBytes(from: constantText.utf8)

        set(.method, name: ":method", value: Self.bytes("POST"))
        set(.scheme, name: ":scheme", value: Self.bytes("https"))
        var start = 0
        for (field, name, text) in [
            (Field.authority, ":authority" as StaticString, authority),
            (.pushType, "apns-push-type", profile.pushType),
            (.topic, "apns-topic", profile.topic),
        ] {
            let end = start + text.utf8.count
            set(field, name: name, value: UnsafeRawBufferPointer(rebasing: constants[start..<end]))
            start = end
        }
        set(.path, name: ":path", value: Self.bytes(""), flags: Self.noIndex)
        set(.authorization, name: "authorization", value: Self.bytes(""), flags: Self.noIndex)
        set(.priority, name: "apns-priority", value: Self.bytes(Self.priority5))
        set(.expiration, name: "apns-expiration", value: Self.bytes(""))
        set(.identifier, name: "apns-id", value: Self.bytes(""))
    }

    deinit {
        fields.deallocate()
        constants.deallocate()
    }

    /// The next requests carry this token. The caller keeps it until no request that names it is left unsent.
    func setAuthorization(_ token: ProviderToken) {
        setValue(.authorization, start: token.headerValue.baseAddress, count: token.headerValue.count)
    }

    /// Points the fields of one push at its slot's texts.
    func setPush(text: UnsafeMutablePointer<UInt8>, pathBytes: Int, expirationBytes: Int, priority: UInt8) {
        setValue(.path, start: text, count: pathBytes)
        setValue(.identifier, start: text + SlotTable.identifierOffset, count: Hexadecimal.identifierBytes)
        setValue(.expiration, start: text + SlotTable.expirationOffset, count: expirationBytes)
        let priorityText = priority == 10 ? Self.priority10 : Self.priority5
        setValue(.priority, start: priorityText.utf8Start, count: priorityText.utf8CodeUnitCount)
    }

    /// The connection's first request has gone, and put the names of these two into the peer's table.
    func stopIndexing() {
        fields[Field.identifier.rawValue].flags = Self.noCopy | Self.noIndex
        fields[Field.expiration.rawValue].flags = Self.noCopy | Self.noIndex
    }

    private func set(_ field: Field, name: StaticString, value: UnsafeRawBufferPointer, flags: UInt8 = 0) {
        fields[field.rawValue].name = UnsafeMutablePointer(mutating: name.utf8Start)
        fields[field.rawValue].namelen = name.utf8CodeUnitCount
        fields[field.rawValue].flags = Self.noCopy | flags
        setValue(field, start: value.baseAddress, count: value.count)
    }

    /// nghttp2 only reads the value; its declaration is not const.
    private func setValue(_ field: Field, start: UnsafeRawPointer?, count: Int) {
        fields[field.rawValue].value = UnsafeMutablePointer(mutating: start?.assumingMemoryBound(to: UInt8.self))
        fields[field.rawValue].valuelen = count
    }

    private static func bytes(_ text: StaticString) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }
}
