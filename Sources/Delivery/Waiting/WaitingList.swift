/// The waiting commands of one activity, in the order of their turns. The list is linked through the commands' slots.
/// (R12)
///
/// The list is usually short: for each life of the activity a start, a state, and the end.
struct WaitingList: BitwiseCopyable {
    /// The link from a record to the next one in its activity's list; `.null`: the record is the last one, or is in no
    /// list.
    struct Link: BitwiseCopyable {
        fileprivate var next = RecordIndex.null
    }

    // The first and the last waiting record; both are `.null` if none waits. In most cases, `merge` compares a new
    // command only with the last one.
    private(set) var first = RecordIndex.null
    private(set) var last = RecordIndex.null

    var isEmpty: Bool { first == .null }
    var head: RecordIndex? { isEmpty ? nil : first }
    var tail: RecordIndex? { isEmpty ? nil : last }

    // `append`, `prepend`, `insert` and `replaceLast` set the added record's stage to `waiting`. Removing a record does
    // not change its stage: the caller must enter the next stage, or put the record back, before it returns.

    mutating func append(_ record: RecordIndex, in records: inout Records) {
        records.enter(.waiting, record)
        putBackLast(record, in: &records)
    }

    /// Adds a record at the end. Its stage must already be `waiting`, for example because it was just removed.
    mutating func putBackLast(_ record: RecordIndex, in records: inout Records) {
        precondition(records[record].stage == .waiting, "only a waiting record is in a list")
        records[record].waitingLink.next = .null
        if isEmpty { first = record } else { records[last].waitingLink.next = record }
        last = record
    }

    mutating func prepend(_ record: RecordIndex, in records: inout Records) {
        records.enter(.waiting, record)
        records[record].waitingLink.next = first
        if isEmpty { last = record }
        first = record
    }

    /// Adds a record before `next`, which must be in the list.
    mutating func insert(_ record: RecordIndex, before next: RecordIndex, in records: inout Records) {
        guard let previous = predecessor(of: next, in: records) else { return prepend(record, in: &records) }
        records.enter(.waiting, record)
        records[record].waitingLink.next = next
        records[previous].waitingLink.next = record
    }

    mutating func popFirst(in records: inout Records) -> RecordIndex? {
        guard !isEmpty else { return nil }
        let record = first
        remove(record, in: &records)
        return record
    }

    /// Returns the record before a record of the list; nil if that record is the first.
    func predecessor(of record: RecordIndex, in records: borrowing Records) -> RecordIndex? {
        guard first != record else { return nil }
        var previous = first
        while records[previous].waitingLink.next != record { previous = records[previous].waitingLink.next }
        return previous
    }

    /// Returns the record after a record of the list; nil if that record is the last.
    func successor(of record: RecordIndex, in records: borrowing Records) -> RecordIndex? {
        let next = records[record].waitingLink.next
        return next == .null ? nil : next
    }

    mutating func replaceLast(by record: RecordIndex, in records: inout Records) {
        if first == last { self = WaitingList() } else { remove(last, in: &records) }
        append(record, in: &records)
    }

    mutating func remove(_ record: RecordIndex, in records: inout Records) {
        let next = records[record].waitingLink.next
        let previous = predecessor(of: record, in: records)
        if let previous { records[previous].waitingLink.next = next } else { first = next }
        if last == record { last = previous ?? .null }
        records[record].waitingLink.next = .null
    }
}
