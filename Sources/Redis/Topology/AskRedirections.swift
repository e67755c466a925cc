/// Remembers which server gets the next call with a key, after the owner of the key's hash slot has replied ASK. Each
/// entry serves one call.
///
/// The key's fingerprint gives the index of the entry. A later key with the same index replaces the entry. The next
/// call with the earlier key then goes to the owner, which replies ASK again.
struct AskRedirections: ~Copyable {
    /// The number of entries. It must be a power of two, because a bit mask gives the index of a fingerprint.
    static let capacity = 2_048

    private struct Entry {
        /// The fingerprint (``KeyHashSlot/fingerprint``) of the key whose next call goes to the server at `nodeIndex`;
        /// 0 if the entry is empty.
        var fingerprint: UInt64
        var nodeIndex: Int
    }

    private let entries = UnsafeMutableBufferPointer<Entry>.allocate(capacity: capacity)
    private(set) var count = 0

    init() {
        entries.initialize(repeating: Entry(fingerprint: 0, nodeIndex: 0))
    }

    deinit {
        entries.deallocate()
    }

    mutating func insert(_ fingerprint: UInt64, nodeIndex: Int) {
        precondition(fingerprint != 0)
        let index = Self.index(of: fingerprint)
        if entries[index].fingerprint == 0 { count += 1 }
        entries[index] = Entry(fingerprint: fingerprint, nodeIndex: nodeIndex)
    }

    func nodeIndex(for fingerprint: UInt64) -> Int? {
        let entry = entries[Self.index(of: fingerprint)]
        return entry.fingerprint == fingerprint ? entry.nodeIndex : nil
    }

    mutating func remove(_ fingerprint: UInt64) {
        let index = Self.index(of: fingerprint)
        guard entries[index].fingerprint == fingerprint, fingerprint != 0 else { return }
        entries[index].fingerprint = 0
        count -= 1
    }

    mutating func removeAll(forNode nodeIndex: Int) {
        for index in entries.indices where entries[index].fingerprint != 0 && entries[index].nodeIndex == nodeIndex {
            entries[index].fingerprint = 0
            count -= 1
        }
    }

    private static func index(of fingerprint: UInt64) -> Int {
        Int(fingerprint & UInt64(capacity - 1))
    }
}
