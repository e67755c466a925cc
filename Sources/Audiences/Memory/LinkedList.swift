import Delivery

/// A slot that can be in a ``LinkedList``, but in only one at a time.
protocol LinkedSlot: BitwiseCopyable {
    /// The next slot of the list; `.null`: this is the last one, or it is in no list.
    var nextInList: SlabIndex<Self> { get set }
}

/// A list of slots that are linked through themselves, so that the list allocates nothing (R3). `predecessor`,
/// `remove`, `replace`, and `insert` with `before` walk through the list; the other methods do not.
///
/// The send queue of an app (``AppWork``) and the list of a round's parked members are linked in both directions
/// instead, because they may be long, and any of their elements may leave at any time.
struct LinkedList<Slot: LinkedSlot>: BitwiseCopyable {
    // Both are `.null` if the list is empty.
    private(set) var first = SlabIndex<Slot>.null
    private(set) var last = SlabIndex<Slot>.null

    var isEmpty: Bool { first == .null }

    mutating func append(_ index: SlabIndex<Slot>, in slots: inout Slab<Slot>) {
        slots[index].nextInList = .null
        if isEmpty { first = index } else { slots[last].nextInList = index }
        last = index
    }

    mutating func prepend(_ index: SlabIndex<Slot>, in slots: inout Slab<Slot>) {
        slots[index].nextInList = first
        if isEmpty { last = index }
        first = index
    }

    /// Adds a slot behind `previous`, which must be in the list.
    mutating func insert(_ index: SlabIndex<Slot>, behind previous: SlabIndex<Slot>, in slots: inout Slab<Slot>) {
        slots[index].nextInList = slots[previous].nextInList
        slots[previous].nextInList = index
        if last == previous { last = index }
    }

    /// Adds a slot before `next`, which must be in the list.
    mutating func insert(_ index: SlabIndex<Slot>, before next: SlabIndex<Slot>, in slots: inout Slab<Slot>) {
        guard let previous = predecessor(of: next, in: slots) else { return prepend(index, in: &slots) }
        insert(index, behind: previous, in: &slots)
    }

    mutating func popFirst(in slots: inout Slab<Slot>) -> SlabIndex<Slot>? {
        guard !isEmpty else { return nil }
        let index = first
        first = slots[index].nextInList
        if isEmpty { last = .null }
        slots[index].nextInList = .null
        return index
    }

    /// Removes a slot, which must be in the list.
    mutating func remove(_ index: SlabIndex<Slot>, in slots: inout Slab<Slot>) {
        let previous = predecessor(of: index, in: slots)
        let next = slots[index].nextInList
        if let previous { slots[previous].nextInList = next } else { first = next }
        if last == index { last = previous ?? .null }
        slots[index].nextInList = .null
    }

    /// Puts a slot in the place of `replaced`, which must be in the list.
    mutating func replace(_ replaced: SlabIndex<Slot>, by index: SlabIndex<Slot>, in slots: inout Slab<Slot>) {
        let previous = predecessor(of: replaced, in: slots)
        slots[index].nextInList = slots[replaced].nextInList
        if let previous { slots[previous].nextInList = index } else { first = index }
        if last == replaced { last = index }
        slots[replaced].nextInList = .null
    }

    /// Removes all slots behind `previous`, which must be in the list, and returns them as a list. If `previous` is
    /// nil, removes all slots.
    mutating func removeAll(behind previous: SlabIndex<Slot>?, in slots: inout Slab<Slot>) -> LinkedList {
        var removed = self
        guard let previous else {
            self = LinkedList()
            return removed
        }
        removed.first = slots[previous].nextInList
        if removed.isEmpty { removed.last = .null }
        slots[previous].nextInList = .null
        last = previous
        return removed
    }

    /// Returns the slot before `index`, which must be in the list; nil if `index` is the first.
    func predecessor(of index: SlabIndex<Slot>, in slots: borrowing Slab<Slot>) -> SlabIndex<Slot>? {
        var previous: SlabIndex<Slot>?
        var current = first
        while current != index, current != .null { (previous, current) = (current, slots[current].nextInList) }
        precondition(current == index, "the slot is not in the list")
        return previous
    }
}
