/// Which keys' next calls go to another node, since the one that has their slot said ASK: each entry serves one call.
///
/// A key has one place in the table, by its fingerprint; two keys that meet there displace each other, and the displaced one is told
/// ASK once more. So the table is bounded, and the last that was told always gets through.
struct AskTable: ~Copyable {
    /// A power of two: more than the calls for one slot that are under way at a time.
    static let capacity = 2_048

    private struct Entry {
        /// 0: none.
        var fingerprint: UInt64
        var node: Int
    }

    private let entries = UnsafeMutableBufferPointer<Entry>.allocate(capacity: capacity)
    private(set) var count = 0

    init() {
        entries.initialize(repeating: Entry(fingerprint: 0, node: 0))
    }

    deinit {
        entries.deallocate()
    }

    mutating func insert(_ fingerprint: UInt64, node: Int) {
        precondition(fingerprint != 0)
        let place = Self.place(fingerprint)
        if entries[place].fingerprint == 0 { count += 1 }
        entries[place] = Entry(fingerprint: fingerprint, node: node)
    }

    func node(for fingerprint: UInt64) -> Int? {
        let entry = entries[Self.place(fingerprint)]
        return entry.fingerprint == fingerprint ? entry.node : nil
    }

    mutating func remove(_ fingerprint: UInt64) {
        let place = Self.place(fingerprint)
        guard entries[place].fingerprint == fingerprint, fingerprint != 0 else { return }
        entries[place].fingerprint = 0
        count -= 1
    }

    /// The node is not to be asked any more.
    mutating func removeAll(for node: Int) {
        for place in entries.indices where entries[place].fingerprint != 0 && entries[place].node == node {
            entries[place].fingerprint = 0
            count -= 1
        }
    }

    private static func place(_ fingerprint: UInt64) -> Int {
        Int(fingerprint & UInt64(capacity - 1))
    }
}
