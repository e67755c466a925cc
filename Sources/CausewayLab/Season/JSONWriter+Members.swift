import LiveActivity
import Numbers

extension JSONWriter {
    /// Returns one JSON object, which `body` writes.
    static func object(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        body(&writer)
        writer.endObject()
        return Array(writer.bytes)
    }

    mutating func member(_ name: StaticString, _ text: String) {
        key(name)
        var text = text
        text.withUTF8 { string(UnsafeRawBufferPointer($0)) }
    }

    mutating func member(_ name: StaticString, _ number: Int) {
        key(name)
        integer(Int64(number))
    }

    /// Writes a number with two decimals, given in hundredths.
    mutating func member(_ name: StaticString, hundredths: Int) {
        member(name, verbatim: Array(Numeral.twoDecimals(hundredths: hundredths).utf8))
    }

    /// Writes a value that is JSON already.
    mutating func member(_ name: StaticString, verbatim json: [UInt8]) {
        key(name)
        json.withUnsafeBytes { raw($0) }
    }

    mutating func member(_ name: StaticString, object body: (inout JSONWriter) -> Void) {
        key(name)
        beginObject()
        body(&self)
        endObject()
    }
}

/// Computes decimal numbers without floating point, so that rates are exact to the last digit.
enum Hundredths {
    /// Returns `numerator / denominator` in hundredths, rounded to the nearest hundredth.
    static func ratio(_ numerator: Int, _ denominator: Int) -> Int {
        precondition(numerator >= 0 && denominator > 0, "a rate has no sign")
        return (numerator * 200 + denominator) / (2 * denominator)
    }
}
