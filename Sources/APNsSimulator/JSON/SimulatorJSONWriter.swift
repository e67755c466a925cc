import Numbers

/// Writes JSON text: responses of the services and of the control interface, registration records, and the push log.
/// The writer does not check that objects and arrays are nested correctly.
///
/// Does not use `LiveActivity`'s writer: the simulator checks what the worker reads and writes, so it shares no JSON
/// code with the worker. The simulator also needs arrays, and responses of many mebibytes.
struct SimulatorJSONWriter {
    private(set) var bytes: [UInt8] = []
    private var needsComma = false

    mutating func object(_ body: (inout SimulatorJSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        body(&self)
        close(UInt8(ascii: "}"))
    }

    mutating func array(_ body: (inout SimulatorJSONWriter) -> Void) {
        open(UInt8(ascii: "["))
        body(&self)
        close(UInt8(ascii: "]"))
    }

    mutating func key(_ key: String) {
        string(key)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    mutating func member(_ key: String, _ value: String) {
        self.key(key)
        string(value)
    }

    mutating func member(_ key: String, _ value: some BinaryInteger) {
        self.key(key)
        raw(Array(String(value).utf8))
    }

    mutating func member(_ key: String, _ value: Bool) {
        self.key(key)
        raw(Array((value ? "true" : "false").utf8))
    }

    /// Writes a number. An infinite value or NaN becomes null.
    mutating func member(_ key: String, _ value: Double) {
        self.key(key)
        raw(Array((value.isFinite ? "\(value)" : "null").utf8))
    }

    mutating func member(_ key: String, object body: (inout SimulatorJSONWriter) -> Void) {
        self.key(key)
        object(body)
    }

    mutating func member(_ key: String, array body: (inout SimulatorJSONWriter) -> Void) {
        self.key(key)
        array(body)
    }

    /// Writes a key with a value that is JSON text already.
    mutating func member(_ key: String, json: [UInt8]) {
        self.key(key)
        raw(json)
    }

    mutating func raw(_ json: [UInt8]) {
        appendCommaIfNeeded()
        bytes.append(contentsOf: json)
    }

    mutating func string(_ value: String) {
        appendCommaIfNeeded()
        bytes.append(UInt8(ascii: "\""))
        for byte in value.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0..<0x20:
                bytes.append(contentsOf: "\\u00".utf8)
                bytes.append(Hexadecimal.digit(byte >> 4))
                bytes.append(Hexadecimal.digit(byte & 15))
            default:
                bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func open(_ bracket: UInt8) {
        appendCommaIfNeeded()
        bytes.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    private mutating func appendCommaIfNeeded() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }
}
