"""The server of the page: `regard view run.regard`.

    guard   who may ask: host, token, method, length; the headers of every answer
    asked   what is asked: parameters read strictly, anything else is refused in a sentence
    app     routes to answers, run in lanes of threads that a long pass cannot block (jobs)
    holdings, pictures, tiles, base        what tiles are computed from; memory has matrices in place of a recording
    answers, overviews, numbers, texts     the other answers
    page                                   the files of the page, from a table
    serving, trim                          starting and closing it, and giving memory back

Starlette and uvicorn are loaded by `app` and `serving` alone.
"""
