/// What only the dead letter of an invalid record needs (`RecordKind.invalid`), from its rejection on. The record's
/// value is in `RecordSlot.body`, and the code of its fault in `RecordTexts.reason`.
struct RecordDeadLetter: BitwiseCopyable {
    /// The fault in words.
    var detail = BlockRange()
    var key: BlockRange?
    var valueForm = DeadLetterValueForm.asReceived
}

/// What a dead letter contains of the record's value.
enum DeadLetterValueForm: UInt8 {
    case asReceived
    /// The record had no value.
    case absent
    /// Kafka refused the dead letter because of its size, so it is written without the value.
    case leftOutAsTooLarge
}
